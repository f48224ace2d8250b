package deploy

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/routing"
)

const (
	connectStream = "application/connect+json"
	start         = "/process.Process/Start"
)

// ticker is the proxy role of a cluster whose one sandbox, "crowd", numbers
// the messages of its streams. Each says something every few seconds.
type ticker struct {
	*httptest.Server
	finish chan struct{} // closed: the streams end well

	mu   sync.Mutex
	sent map[string]int // messages, by stream
}

// every is the time between two messages of a stream.
const every = 3 * time.Second

func newTicker(t *testing.T) *ticker {
	t.Helper()
	s := &ticker{finish: make(chan struct{}), sent: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *ticker) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.URL.Path != start {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", connectStream)
	id := r.Header.Get("X-Stream")
	wait := time.NewTimer(time.Duration(rand.Int64N(int64(every))))
	defer wait.Stop()
	for n := 0; ; n++ {
		_, _ = w.Write(envelope.Append(nil, 0, []byte(strconv.Itoa(n))))
		_ = http.NewResponseController(w).Flush()
		s.mu.Lock()
		s.sent[id] = n + 1
		s.mu.Unlock()
		select {
		case <-wait.C:
			wait.Reset(every)
		case <-s.finish:
			_, _ = w.Write(envelope.Append(nil, envelope.FlagEndStream, []byte("{}")))
			return
		case <-r.Context().Done():
			return
		}
	}
}

// counts are the messages of each stream so far.
func (s *ticker) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.sent)
}

// untilAllSpeak waits until each stream has had another message.
func (s *ticker) untilAllSpeak(t *testing.T) {
	t.Helper()
	before := s.counts()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		silent := 0
		for id, n := range s.counts() {
			if n == before[id] {
				silent++
			}
		}
		if silent == 0 {
			return
		}
		select {
		case <-poll.C:
		case <-limit.C:
			t.Fatalf("%d streams are silent", silent)
		}
	}
}

// crowd is many streams of the sandbox "crowd".
type crowd struct {
	size    int
	results chan result
}

// result is what became of one stream.
type result struct {
	id       string
	messages int
	end      string // the payload of EndStream
	at       time.Time
	err      error // anything but messages in order and one EndStream
}

// gather opens streams, half of them over HTTP/1.1 and, where the gateway
// offers it, half over HTTP/2. It returns when each has had its first message.
func gather(t *testing.T, g *harness.Process, size int) *crowd {
	t.Helper()
	h1, other := http1(g), g.Client()
	c := &crowd{size, make(chan result, size)}
	begun := make(chan error, size)
	places := make(chan struct{}, 32) // a few handshakes at a time
	for i := range size {
		client := h1
		if i%2 == 1 {
			client = other
		}
		go func() {
			places <- struct{}{}
			resp, err := client.Do(call(g, "POST", start, "{}", "X-Stream", strconv.Itoa(i)))
			<-places
			if err != nil {
				begun <- err
				return
			}
			defer resp.Body.Close()
			res := result{id: strconv.Itoa(i)}
			res.read(resp.Body, begun)
			res.at = time.Now()
			c.results <- res
		}()
	}
	for range size {
		if err := <-begun; err != nil {
			t.Fatalf("a stream did not begin: %v", err)
		}
	}
	return c
}

// http1 is a client that offers HTTP/1.1 only.
func http1(g *harness.Process) *http.Client {
	c := g.Client()
	tr := c.Transport.(*http.Transport)
	tr.ForceAttemptHTTP2 = false
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetHTTP1(true)
	return c
}

// call is a data-plane request.
func call(g *harness.Process, method, path, body string, headers ...string) *http.Request {
	r, err := http.NewRequest(method, g.URL+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header[routing.HeaderSandboxID] = []string{"crowd"}
	r.Header[routing.HeaderSandboxPort] = []string{"49983"}
	if method == "POST" {
		r.Header.Set("Content-Type", connectStream)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// read reads a stream to its end and reports its first message.
func (r *result) read(body io.Reader, begun chan<- error) {
	var prefix [envelope.PrefixSize]byte
	for {
		if _, r.err = io.ReadFull(body, prefix[:]); r.err != nil {
			break
		}
		payload := make([]byte, binary.BigEndian.Uint32(prefix[1:]))
		if _, r.err = io.ReadFull(body, payload); r.err != nil {
			break
		}
		if prefix[0]&envelope.FlagEndStream != 0 {
			r.end = string(payload)
			if n, err := io.Copy(io.Discard, body); n != 0 || err != nil {
				r.err = fmt.Errorf("after EndStream: %d bytes, %v", n, err)
			}
			break
		}
		if string(payload) != strconv.Itoa(r.messages) {
			r.err = fmt.Errorf("message %d is %q", r.messages, payload)
			break
		}
		if r.messages++; r.messages == 1 {
			begun <- nil
		}
	}
	if r.messages == 0 {
		begun <- fmt.Errorf("no message: %q, %w", r.end, r.err)
	}
}

// await returns the results of all streams.
func (c *crowd) await(t *testing.T, limit time.Duration) (all []result) {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	for range c.size {
		select {
		case r := <-c.results:
			all = append(all, r)
		case <-late.C:
			t.Fatalf("%d of %d streams have not ended", c.size-len(all), c.size)
		}
	}
	return all
}

// drained reports whether a stream was ended because the gateway goes away.
func (r *result) drained() bool {
	var end struct {
		Error struct{ Code, Message string } `json:"error"`
	}
	return r.err == nil && json.Unmarshal([]byte(r.end), &end) == nil &&
		end.Error.Code == "aborted" && strings.Contains(end.Error.Message, restarting)
}

// restarting is in every text that tells of a drain.
const restarting = "The gateway is restarting"
