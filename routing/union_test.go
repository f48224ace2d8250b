package routing

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// fixedAnswer is a registry with one answer, given after a time.
type fixedAnswer struct {
	route *Route
	err   error
	after time.Duration
}

func (a fixedAnswer) Lookup(ctx context.Context, _ string) (*Route, error) {
	select {
	case <-time.After(a.after):
		return a.route, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestUnionKeepsTheThreeAnswersApart(t *testing.T) {
	running, paused := &Route{State: StateRunning}, &Route{State: StatePaused}
	down := errors.New("down")
	here := func(r *Route) fixedAnswer { return fixedAnswer{route: r} }
	says := func(err error) fixedAnswer { return fixedAnswer{err: err} }
	for name, tc := range map[string]struct {
		members []fixedAnswer
		state   State
		gone    bool
	}{
		"here":                          {[]fixedAnswer{here(running)}, StateRunning, false},
		"one here, one gone":            {[]fixedAnswer{says(ErrGone), here(running)}, StateRunning, false},
		"one here, one does not answer": {[]fixedAnswer{says(down), here(running)}, StateRunning, false},
		"running beats paused":          {[]fixedAnswer{here(paused), here(running)}, StateRunning, false},
		"paused is here too":            {[]fixedAnswer{says(ErrGone), here(paused)}, StatePaused, false},
		"all gone":                      {[]fixedAnswer{says(ErrGone), says(ErrGone)}, 0, true},
		"one gone, one does not answer": {[]fixedAnswer{says(ErrGone), says(down)}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var members []Member
			for i, a := range tc.members {
				members = append(members, Member{Cluster: string(rune('a' + i)), Registry: a})
			}
			r, err := NewUnion(members).Lookup(t.Context(), "x")
			switch {
			case tc.state != 0:
				if err != nil || r.State != tc.state || r.Cluster == "" {
					t.Fatalf("got %+v, %v", r, err)
				}
			case errors.Is(err, ErrGone) != tc.gone || err == nil:
				t.Fatalf("got %+v, %v", r, err)
			}
		})
	}
}

func TestUnionDoesNotWaitForASlowMemberOnceTheSandboxIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := NewUnion([]Member{
			{Cluster: "slow", Registry: fixedAnswer{err: ErrGone, after: time.Minute}},
			{Cluster: "fast", Registry: fixedAnswer{route: &Route{State: StateRunning}, after: time.Millisecond}},
		})
		begun := time.Now()
		r, err := u.Lookup(t.Context(), "x")
		if err != nil || r.Cluster != "fast" || time.Since(begun) != time.Millisecond {
			t.Fatalf("got %+v, %v after %v", r, err, time.Since(begun))
		}
		synctest.Wait()
		time.Sleep(time.Minute)
	})
}

// One cluster's outage is not the other's.
func TestAFailingMemberDoesNotTakeTheOthersDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newTable()
		for i := range 100 {
			reg.put(running(fmt.Sprint("s", i), "1"))
		}
		deaf := fixedAnswer{err: ErrGone, after: time.Hour}
		c := NewCache(NewUnion([]Member{{Cluster: "well", Registry: reg}, {Cluster: "deaf", Registry: deaf}}), CacheOptions{})
		defer c.Close()
		for i := range 100 {
			unknown, known := ask(t, c, fmt.Sprint("unknown", i)), ask(t, c, fmt.Sprint("s", i))
			if unknown.err == nil || errors.Is(unknown.err, ErrGone) {
				t.Fatalf("unknown: %+v", unknown)
			}
			if known.err != nil || known.route.Cluster != "well" {
				t.Fatalf("known, after %d unknown ones: %+v", i+1, known)
			}
		}
		begun := time.Now()
		ask(t, c, "last")
		if d := time.Since(begun); d > time.Second {
			t.Errorf("a cluster that is out still costs %v", d)
		}
	})
}
