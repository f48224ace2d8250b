package module

import (
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// panicOf is what f panics with, or nil.
func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func TestAWorkerServesOneRequestAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p workers
		served := 0
		count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
		for range 100 {
			p.serve(count, nil, nil)
		}
		if served != 100 || len(p.idle) != 1 {
			t.Errorf("%d requests were served, by %d workers", served, len(p.idle))
		}
		close(p.take().requests)
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
				if !c.is(v) || len(p.idle) != 0 {
					t.Errorf("%v, and %d workers wait", v, len(p.idle))
				}
				served := false
				p.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }), nil, nil)
				if !served {
					t.Error("the next request was not served")
				}
				close(p.take().requests)
			})
		})
	}
}

func faulty() { panic("a fault") }

// synctest fails when a worker that is not kept goes on.
func TestNoMoreThanSomeWorkersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p workers
		var all sync.WaitGroup
		together := make(chan struct{})
		wait := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-together })
		for range 2 * mostIdle {
			all.Go(func() { p.serve(wait, nil, nil) })
		}
		synctest.Wait()
		close(together)
		all.Wait()
		if len(p.idle) != mostIdle {
			t.Errorf("%d wait", len(p.idle))
		}
		for len(p.idle) > 0 {
			close(p.take().requests)
		}
	})
}
