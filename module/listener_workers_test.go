package module

import (
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// panicOf is what f panics with, or nil.
func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// waiting is how many workers wait for work.
func (p *workers) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

func TestAWorkerServesOneRequestAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p workers
		served := 0
		count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
		for range 100 {
			p.serve(count, nil, nil)
		}
		if n := p.waiting(); served != 100 || n != 1 {
			t.Errorf("%d requests were served, by %d workers", served, n)
		}
		time.Sleep(3 * idleLook)
	})
}

// How a handler ends is how its request ends, and what comes next has a worker that is well.
func TestHowAHandlerPanicsIsHowItsRequestDoes(t *testing.T) {
	for name, c := range map[string]struct {
		handler func()
		is      func(v any) bool
	}{
		"cut":    {func() { panic(http.ErrAbortHandler) }, func(v any) bool { return v == http.ErrAbortHandler }},
		"goexit": {runtime.Goexit, func(v any) bool { return v == http.ErrAbortHandler }},
		"fault": {faulty, func(v any) bool {
			text, _ := v.(string)
			return strings.HasPrefix(text, "a fault\n") && strings.Contains(text, "module.faulty")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p workers
				v := panicOf(func() {
					p.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.handler() }), nil, nil)
				})
				if n := p.waiting(); !c.is(v) || n != 0 {
					t.Errorf("%v, and %d workers wait", v, n)
				}
				served := false
				p.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }), nil, nil)
				if !served {
					t.Error("the next request was not served")
				}
				time.Sleep(3 * idleLook)
			})
		})
	}
}

func faulty() { panic("a fault") }

// synctest fails when a worker that is not kept goes on.
func TestWorkersWithoutWorkEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p workers
		// together serves n requests at the same time.
		together := func(n int) {
			var all sync.WaitGroup
			goOn := make(chan struct{})
			wait := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-goOn })
			for range n {
				all.Go(func() { p.serve(wait, nil, nil) })
			}
			synctest.Wait()
			close(goOn)
			all.Wait()
		}
		waiting := func(want int) {
			t.Helper()
			if n := p.waiting(); n != want {
				t.Errorf("%d wait, want %d", n, want)
			}
		}
		together(2 * mostIdle)
		waiting(mostIdle)
		for range 3 {
			time.Sleep(idleLook)
			together(5)
		}
		waiting(5)
		time.Sleep(3 * idleLook)
		waiting(0)
		together(3)
		waiting(3)
		time.Sleep(3 * idleLook)
		waiting(0)
	})
}
