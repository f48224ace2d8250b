package module

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// workers are goroutines that serve one request after the other. net/http has a new
// goroutine for each request of HTTP/2, which begins with a small stack and outgrows it
// two or three times on its way through Caddy: that was a fifth of what a small call
// costs. A worker has outgrown it before.
type workers struct {
	mu     sync.Mutex
	idle   []*worker // the last one has worked last
	unused int       // so many of idle, from the first one, had no work since the last look
	looked bool      // somebody will look
}

const (
	// mostIdle is how many workers wait for work.
	mostIdle = 64
	// idleLook is how often those are ended that had none since the last time.
	idleLook = 10 * time.Second
)

// worker is one of them. It is busy from a request that it is given until its end is
// taken: what the handler has panicked with, nil when all went well.
type worker struct {
	requests chan request // closed when there will be none
	ends     chan any
}

// request is a request to be served.
type request struct {
	by http.Handler
	w  http.ResponseWriter
	r  *http.Request
}

// serve lets a worker serve a request and returns, or panics, when it has.
func (p *workers) serve(by http.Handler, w http.ResponseWriter, r *http.Request) {
	one := p.take()
	one.requests <- request{by, w, r}
	if panicked := <-one.ends; panicked != nil {
		close(one.requests)
		panic(panicked)
	}
	p.put(one)
}

func (p *workers) take() *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		one := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.unused = min(p.unused, n-1)
		return one
	}
	one := &worker{make(chan request, 1), make(chan any, 1)}
	go one.work()
	return one
}

func (p *workers) put(one *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == mostIdle {
		close(one.requests)
		return
	}
	p.idle = append(p.idle, one)
	if !p.looked {
		p.looked = true
		time.AfterFunc(idleLook, p.look)
	}
}

// look ends the workers that had no work since it was called last.
func (p *workers) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.idle[:p.unused] {
		close(one.requests)
	}
	p.idle = slices.Delete(p.idle, 0, p.unused)
	p.unused = len(p.idle)
	if p.looked = p.unused > 0; p.looked {
		time.AfterFunc(idleLook, p.look)
	}
}

// work serves until there will be no more requests.
func (o *worker) work() {
	for q := range o.requests {
		o.serve(q)
	}
}

func (o *worker) serve(q request) {
	var panicked any = http.ErrAbortHandler // what is left of runtime.Goexit
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			// net/http logs it, and the stack of who does not know where it comes from.
			panicked = fmt.Sprintf("%v\n\n%s", v, debug.Stack())
		}
		o.ends <- panicked
	}()
	q.by.ServeHTTP(q.w, q.r)
	panicked = nil
}
