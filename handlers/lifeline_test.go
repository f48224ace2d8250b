package handlers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

// wait is something that waits, and counts how often it was cut.
type wait struct{ cuts atomic.Int32 }

func (w *wait) Cut() { w.cuts.Add(1) }

// living is the lifeline of a call that lasts or not, and the end of its client.
func living(t *testing.T, lasts bool) (l *lifeline, leave context.CancelFunc) {
	client, leave := context.WithCancel(t.Context())
	l = new(lifeline)
	l.begin(client)
	if lasts {
		l.last()
	}
	t.Cleanup(func() { leave(); l.end() })
	return l, leave
}

func TestAReasonReachesWhoeverLooksAtTheContext(t *testing.T) {
	for name, lasts := range map[string]bool{"young": false, "lasting": true} {
		t.Run(name, func(t *testing.T) {
			l, _ := living(t, lasts)
			child, stop := context.WithTimeout(l, time.Hour)
			defer stop()
			if l.Err() != nil || endedBy(l) != cause.OK {
				t.Fatal(l.Err(), endedBy(l))
			}
			l.cancel(ended{cause.Drain})
			<-child.Done()
			if !errors.Is(l.Err(), context.Canceled) || endedBy(l) != cause.Drain || endedBy(child) != cause.Drain {
				t.Error(l.Err(), endedBy(l), endedBy(child))
			}
		})
	}
}

func TestAClientThatLeavesCutsWhatIsTiedOnceTheCallLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, leave := living(t, false)
		w := new(wait)
		if !l.Tie(w) {
			t.Fatal("the call has ended")
		}
		leave()
		synctest.Wait()
		if n := w.cuts.Load(); n != 0 {
			t.Fatalf("a young call was cut %d times", n)
		}
		l.last()
		synctest.Wait()
		if n := w.cuts.Load(); n != 1 || l.Untie() {
			t.Errorf("it was cut %d times", n)
		}
		if l.Tie(w) {
			t.Error("something was tied to a call that has ended")
		}
	})
}

func TestNothingIsCutThatWasUntied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, leave := living(t, true)
		w := new(wait)
		if !l.Tie(w) || !l.Untie() {
			t.Fatal("the call has ended")
		}
		leave()
		l.cancel(ended{cause.Drain})
		synctest.Wait()
		if n := w.cuts.Load(); n != 0 {
			t.Errorf("it was cut %d times", n)
		}
	})
}

func TestABoundCountsFromTheBeginningOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := living(t, false)
		l.within(ofClient, time.Second, cause.Deadline)
		l.within(ofBody, time.Minute, cause.BadRequest)
		time.Sleep(youth)
		l.last()
		time.Sleep(time.Second - youth - time.Millisecond)
		synctest.Wait()
		if l.Err() != nil {
			t.Fatal("too early")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if endedBy(l) != cause.Deadline {
			t.Errorf("ended by %v", endedBy(l))
		}
	})
}

func TestABoundThatWasLiftedDoesNotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := living(t, true)
		l.within(ofBody, time.Second, cause.BadRequest)
		l.lift(ofBody)
		l.within(ofClient, time.Second, cause.Deadline)
		l.end()
		time.Sleep(time.Minute)
		synctest.Wait()
		if by := endedBy(l); by != cause.OK {
			t.Errorf("ended by %v", by)
		}
		if l.Err() == nil {
			t.Error("the context of a call that is over has not ended")
		}
	})
}

func TestABoundThatIsLiftedAtItsLastMomentDoesNotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := living(t, true)
		l.within(ofBody, time.Second, cause.BadRequest)
		l.mu.Lock()
		time.Sleep(time.Second) // its timer waits for the lock
		l.bounds[ofBody].stop()
		l.mu.Unlock()
		synctest.Wait()
		if l.Err() != nil {
			t.Errorf("ended by %v", endedBy(l))
		}
	})
}

// marked counts how often it is told that it lasts.
type marked struct{ told atomic.Int32 }

func (m *marked) last()        { m.told.Add(1) }
func (m *marked) cancel(error) {}

func TestCallsAreToldOnceThatTheyLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		short, long := new(marked), new(marked)
		first, second := &running{cancel: short, lasts: short}, &running{cancel: long, lasts: long}
		c.add(second)
		for range 10 {
			c.add(first)
			time.Sleep(youth / 2)
			c.remove(first)
			first = &running{cancel: short, lasts: short}
		}
		synctest.Wait()
		if s, l := short.told.Load(), long.told.Load(); s != 0 || l != 1 {
			t.Errorf("calls of half that time were told %d times, the long one %d times", s, l)
		}
		n := 0
		c.each(func(*running) { n++ })
		c.remove(second)
		c.each(func(*running) { n++ })
		if n != 1 {
			t.Errorf("%d calls ran", n)
		}
		time.Sleep(time.Minute)
		if c.looking.Load() {
			t.Error("somebody still looks for calls")
		}
	})
}
