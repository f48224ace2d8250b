package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// Headers between clients and sandboxes.
const (
	headerID      = "X-Chaos-Id"      // the request's name, which no other has
	headerLength  = "X-Chaos-Length"  // how long the whole answer is, or the whole request
	headerWitness = "X-Chaos-Witness" // the name of the sandbox that answers
)

// witness is what runs in the sandboxes. Each answers with its own name, and all of them note what they were asked to do.
type witness struct {
	mu       sync.Mutex
	executed map[string]int   // by the request's name
	took     map[string]int64 // of a body that has come to its end, how long it was
}

func newWitness() *witness {
	return &witness{executed: map[string]int{}, took: map[string]int64{}}
}

func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.executed)
	clear(w.took)
}

// runs tells how often a request was carried out.
func (w *witness) runs(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.executed[id]
}

// body tells how long a request's body was that has come to its end.
func (w *witness) body(id string) (length int64, whole bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	length, whole = w.took[id]
	return length, whole
}

// in is what runs in one sandbox.
func (w *witness) in(s *rock.Sandbox) http.Handler { return w.named(s.ID) }

func (w *witness) named(name string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(headerID)
		w.mu.Lock()
		w.executed[id]++
		w.mu.Unlock()
		rw.Header().Set(headerWitness, name)
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.mu.Lock()
		w.took[id] = n
		w.mu.Unlock()
		size, _ := strconv.Atoi(r.URL.Query().Get("size"))
		switch {
		case r.URL.Path == "/health":
			rw.WriteHeader(http.StatusNoContent)
		case r.URL.Path == "/process.Process/Start":
			run(rw, r, name)
		case r.URL.Path == "/files" && r.Method == http.MethodGet:
			read(rw, name, id, size, r.URL.Query().Has("chunked"))
		default:
			rw.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(rw).Encode(map[string]any{"witness": name, "id": id, "took": n})
		}
	})
}

// read answers with lines that each name the sandbox and the request.
func read(rw http.ResponseWriter, name, id string, size int, chunked bool) {
	body := lines(name, id, size)
	rw.Header().Set("Content-Type", "application/octet-stream")
	rw.Header().Set(headerLength, strconv.Itoa(len(body)))
	if !chunked {
		rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	for len(body) > 0 {
		n := min(len(body), 16<<10)
		if _, err := io.WriteString(rw, body[:n]); err != nil {
			return
		}
		body = body[n:]
	}
}

// lines is a body of at least size bytes.
func lines(name, id string, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%s %s %07d\n", name, id, i)
	}
	return b.String()
}

// message is one of a stream.
type message struct {
	Event   map[string]any `json:"event"`
	Witness string         `json:"witness"`
	ID      string         `json:"id"`
	Seq     int            `json:"seq"`
}

// run answers with a stream of so many messages, so far apart, and its end.
func run(rw http.ResponseWriter, r *http.Request, name string) {
	count, _ := strconv.Atoi(r.URL.Query().Get("count"))
	pause, _ := time.ParseDuration(r.URL.Query().Get("pause"))
	size, _ := strconv.Atoi(r.URL.Query().Get("size"))
	rw.Header().Set("Content-Type", "application/connect+json")
	tick := time.NewTicker(max(pause, time.Microsecond))
	defer tick.Stop()
	for i := range count {
		event := map[string]any{"data": map[string]any{"stdout": strings.Repeat("QUJD", size/4)}}
		switch i {
		case 0:
			event = map[string]any{"start": map[string]any{"pid": 7}}
		case count - 1:
			event = map[string]any{"end": map[string]any{"exited": true, "status": "exit status 0"}}
		}
		payload, err := json.Marshal(message{event, name, r.Header.Get(headerID), i})
		if err != nil {
			panic(err)
		}
		if _, err := rw.Write(envelope.Append(nil, 0, payload)); err != nil {
			return
		}
		if err := http.NewResponseController(rw).Flush(); err != nil {
			return
		}
		if i == count-1 {
			break
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
	_, _ = rw.Write(envelope.Append(nil, envelope.FlagEndStream, []byte("{}")))
}
