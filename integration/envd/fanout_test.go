package envd

import (
	"testing"
	"testing/synctest"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// publishing publishes n events from its own goroutine and gives the number that got through so far.
func publishing(f *fanout, n int) *int {
	published := new(int)
	go func() {
		for range n {
			f.publish(keepaliveEvent())
			*published++
		}
	}()
	return published
}

func TestAListenerThatDoesNotKeepUpHoldsThePublisherBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFanout(nil)
		l := f.listen()
		published := publishing(f, 1000)
		synctest.Wait()
		if *published != cap(l.events) {
			t.Errorf("%d events published with nobody reading, the channel holds %d", *published, cap(l.events))
		}
		for range 1000 {
			<-l.events
		}
		synctest.Wait()
		if *published != 1000 {
			t.Errorf("%d events published after 1000 were read", *published)
		}
	})
}

func TestAListenerThatLeftHoldsNobodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFanout(nil)
		stuck, reading := f.listen(), f.listen()
		published := publishing(f, 1000)
		go func() {
			for range reading.events {
			}
		}()
		synctest.Wait()
		if *published == 1000 {
			t.Fatal("the stuck listener held nothing back")
		}
		stuck.leave()
		stuck.leave() // leaving twice is fine
		synctest.Wait()
		if *published != 1000 {
			t.Errorf("%d events published after the stuck listener left", *published)
		}
		f.finish(endEvent(run.Exit{}))
	})
}

func TestAbortFreesThePublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		abort := make(chan struct{})
		f := newFanout(abort)
		f.listen()
		published := publishing(f, 1000)
		synctest.Wait()
		close(abort)
		synctest.Wait()
		if *published != 1000 {
			t.Errorf("%d events published after abort", *published)
		}
	})
}

func TestTheEndReachesEveryListener(t *testing.T) {
	f := newFanout(nil)
	early := f.listen()
	end := endEvent(run.Exit{Code: 2})
	f.finish(end)
	late := f.listen()
	for name, l := range map[string]*listener{"early": early, "late": late} {
		var got []*processpb.ProcessEvent
		for event := range l.events {
			got = append(got, event)
		}
		if len(got) != 1 || got[0] != end {
			t.Errorf("%s listener got %v", name, got)
		}
	}
}
