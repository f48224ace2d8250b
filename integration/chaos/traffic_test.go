package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
)

// patience is when a client says that a call hangs. Faults last a second or two. What takes longest is to find out that a sandbox is gone
// whose host said nothing: the kernel asks after 15 s.
const patience = 40 * time.Second

// worker is one client, that asks for one thing after another.
type worker struct {
	w      *world
	plan   plan
	number int
	r      *rand.Rand
	client []*http.Client // one for each gateway
	count  int
	told   []*story
}

// work goes on until ctx ends; the call that runs then is not given up.
func (k *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		k.told = append(k.told, k.next(ctx))
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(5+k.r.IntN(55)) * time.Millisecond):
		}
	}
}

// next makes one call.
func (k *worker) next(ctx context.Context) *story {
	k.count++
	id := fmt.Sprintf("%d-%d-%d", k.plan.seed, k.number, k.count)
	all := k.w.names()
	sandbox, gateway := all[k.r.IntN(len(all))], k.r.IntN(len(k.client))
	c := call{id: id, sandbox: sandbox, gateway: gateway, size: k.r.IntN(1 << (6 + k.r.IntN(14))), leaves: -1}
	if k.r.IntN(8) == 0 {
		c.leaves = time.Duration(k.r.IntN(60)) * time.Millisecond
	}
	if k.r.IntN(10) == 0 {
		c.slow = time.Duration(1+k.r.IntN(10)) * time.Millisecond
	}
	c.chunked = k.r.IntN(2) == 0
	c.count, c.pause = 2+k.r.IntN(12), time.Duration(k.r.IntN(80))*time.Millisecond
	switch n := k.r.IntN(20); {
	case n < 5:
		c.kind = "stat"
	case n < 7:
		c.kind = "health"
	case n < 10:
		c.kind = "read"
	case n < 13:
		c.kind = "write"
	case n < 18:
		c.kind = "run"
	case n < 19:
		c.kind = "info"
	default:
		c.kind = "create"
	}
	return c.make(ctx, k)
}

// call is what is asked for.
type call struct {
	id, kind, sandbox string
	gateway           int
	size              int
	chunked           bool
	slow              time.Duration // between two reads of the answer, or writes of the body
	leaves            time.Duration // when the client goes away; -1 for never
	count             int
	pause             time.Duration
}

// request is the call's, and how long its body is.
func (c *call) request(ctx context.Context, base string) (*http.Request, int64) {
	method, path, body, header := http.MethodPost, "", "", http.Header{headerID: {c.id}}
	data := true
	switch c.kind {
	case "stat":
		path, body = "/filesystem.Filesystem/Stat", `{"path":"`+c.id+`"}`
		header.Set("Content-Type", "application/json")
	case "health":
		method, path = http.MethodGet, "/health"
	case "read":
		method, path = http.MethodGet, fmt.Sprintf("/files?path=/x&size=%d", c.size)
		if c.chunked {
			path += "&chunked"
		}
	case "write":
		path, body = "/files?path=/x", lines(c.sandbox, c.id, c.size)
		header.Set("Content-Type", "application/octet-stream")
	case "run":
		path = fmt.Sprintf("/process.Process/Start?count=%d&pause=%s&size=%d", c.count, c.pause, c.size/16)
		body = string(envelope.Append(nil, 0, []byte(`{"process":{"cmd":"`+c.id+`"}}`)))
		header.Set("Content-Type", "application/connect+json")
		header.Set("Connect-Protocol-Version", "1")
	case "info":
		method, path, data = http.MethodGet, "/sandboxes/"+url.PathEscape(c.sandbox), false
	case "create":
		path, data = "/sandboxes", false
		body = `{"templateID":"base","timeout":300,"metadata":{"ap-sandbox-id":"made-` + c.id + `"}}`
		header.Set("Content-Type", "application/json")
	}
	if data {
		header.Set("E2b-Sandbox-Id", c.sandbox)
		header.Set("E2b-Sandbox-Port", "49983")
	}
	var from io.Reader
	if body != "" {
		// No library may send it again: it cannot rewind it.
		from = &trickle{r: strings.NewReader(body), pause: c.slow}
	}
	r, err := http.NewRequestWithContext(ctx, method, base+path, from)
	if err != nil {
		panic(err)
	}
	r.Header = header
	if body != "" && !(c.kind == "write" && c.chunked) {
		r.ContentLength = int64(len(body))
	}
	return r, int64(len(body))
}

// make makes the call and tells its story.
func (c *call) make(_ context.Context, k *worker) *story {
	s := newStory(c.id, c.kind, c.sandbox, c.gateway)
	s.wanted = c.count
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if c.leaves >= 0 {
		s.left = true
		defer time.AfterFunc(c.leaves, cancel).Stop()
	}
	var writes atomic.Int32
	var sent atomic.Pointer[time.Time]
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() {
		now := time.Now()
		sent.CompareAndSwap(nil, &now)
		writes.Add(1)
	}})
	r, sends := c.request(ctx, k.w.gateways[c.gateway].url)
	s.sends = sends
	resp, err := k.client[c.gateway].Do(r)
	if err != nil {
		s.err = err
	} else {
		s.status, s.header = resp.StatusCode, resp.Header
		c.listen(resp, s)
		resp.Body.Close()
	}
	s.writes = int(writes.Load())
	if at := sent.Load(); at != nil {
		s.sent = *at
	}
	s.late = errors.Is(s.err, context.DeadlineExceeded) || ctx.Err() == context.DeadlineExceeded
	s.ended = time.Now()
	return s
}

// listen reads an answer to its end.
func (c *call) listen(resp *http.Response, s *story) {
	body := &trickle{r: resp.Body, pause: c.slow}
	if name := resp.Header.Get(headerWitness); name != "" {
		s.names[name] = true
	}
	if c.kind == "run" && resp.StatusCode == http.StatusOK {
		s.hearStream(body)
		return
	}
	b, err := io.ReadAll(body)
	s.err, s.length = err, int64(len(b))
	if c.kind == "read" && resp.StatusCode == http.StatusOK {
		s.hearLines(string(b))
		return
	}
	s.text = string(b)
	var told struct{ Witness, ID, SandboxID string }
	if json.Unmarshal(b, &told) != nil {
		return
	}
	if told.Witness != "" {
		s.names[told.Witness], s.ids[told.ID] = true, true
	}
	if told.SandboxID != "" && c.kind == "info" {
		s.names[told.SandboxID] = true
	}
	if told.SandboxID != "" && c.kind == "create" && told.SandboxID != "made-"+c.id {
		s.foreign = told.SandboxID
	}
}

// hearLines looks for lines of others.
func (s *story) hearLines(body string) {
	for i := 0; body != ""; i++ {
		want := fmt.Sprintf("%s %s %07d\n", s.sandbox, s.id, i)
		n := min(len(body), len(want))
		if body[:n] != want[:n] {
			s.foreign = body[:min(len(body), 100)]
			return
		}
		body = body[n:]
	}
}

// hearStream reads envelopes.
func (s *story) hearStream(body io.Reader) {
	s.stream = true
	prefix := make([]byte, envelope.PrefixSize)
	for {
		n, err := io.ReadFull(body, prefix)
		if err == io.EOF {
			return
		}
		s.length += int64(n)
		s.after = s.finals > 0 && n > 0
		if err != nil {
			s.torn, s.err = n > 0, err
			return
		}
		size := int(prefix[1])<<24 | int(prefix[2])<<16 | int(prefix[3])<<8 | int(prefix[4])
		if size > 1<<24 {
			s.foreign = fmt.Sprintf("an envelope of %d bytes", size)
			return
		}
		payload := make([]byte, size)
		if n, err = io.ReadFull(body, payload); err != nil {
			s.torn, s.err = true, err
			return
		}
		s.length += int64(n)
		if prefix[0]&envelope.FlagEndStream != 0 {
			s.hearEnd(payload)
			continue
		}
		var m message
		if err := json.NewDecoder(bytes.NewReader(payload)).Decode(&m); err != nil || m.Seq != s.messages {
			s.foreign = string(payload[:min(len(payload), 100)])
			continue
		}
		s.messages++
		s.names[m.Witness], s.ids[m.ID] = true, true
	}
}

func (s *story) hearEnd(payload []byte) {
	s.finals++
	var end struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(payload, &end) != nil {
		s.foreign = string(payload)
	}
	s.code, s.text = end.Error.Code, string(payload)
}

// trickle reads slowly, and does not let itself be rewound.
type trickle struct {
	r     io.Reader
	pause time.Duration
	waits int
}

func (t *trickle) Read(p []byte) (int, error) {
	if t.pause > 0 && t.waits < 60 {
		t.waits++
		<-time.After(t.pause)
		p = p[:min(len(p), 8<<10)]
	}
	return t.r.Read(p)
}
