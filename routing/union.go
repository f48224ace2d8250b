package routing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Member is one cluster's registry in a [Union].
type Member struct {
	Cluster  string
	Registry Registry
	Counts   *RegistryCounts // nil: nobody wants to know
}

// Union asks the registries of several clusters as one. It keeps the three
// answers apart: here when any member says here; gone only when every member
// answered gone; don't know otherwise.
//
// A member that answers nobody is noticed, and then asked only a few times a
// second, so that it does not slow down the others' sandboxes.
type Union struct {
	members []*member
	birth   time.Time // the zero of the members' clocks
}

type member struct {
	Member
	health health
}

// memberTimeout is how long a member that was well may be silent until failures
// of it count.
const memberTimeout = time.Second

// errPartial marks a don't know that some members have answered: one cluster is
// out, not all of them.
var errPartial = errors.New("other clusters have answered")

// NewUnion joins members. When two of them hold the same sandbox, a running one wins.
func NewUnion(members []Member) *Union {
	u := &Union{birth: time.Now()}
	for _, m := range members {
		u.members = append(u.members, &member{Member: m})
	}
	return u
}

// Lookup implements [Registry].
func (u *Union) Lookup(ctx context.Context, id string) (*Route, error) {
	if len(u.members) == 1 {
		return u.ask(ctx, u.members[0], id)
	}
	type reply struct {
		route *Route
		err   error
	}
	// Room for every reply lets a slow member finish unheard once another has
	// found the sandbox running.
	replies := make(chan reply, len(u.members))
	for _, m := range u.members {
		go func() {
			r, err := u.askIfWell(ctx, m, id)
			replies <- reply{r, err}
		}()
	}
	var resting *Route // here, but not running
	var unknown error
	answered := 0
	for range u.members {
		select {
		case r := <-replies:
			switch {
			case r.err == nil && r.route.State == StateRunning:
				return r.route, nil
			case r.err == nil && resting == nil:
				resting = r.route
			case r.err != nil && !errors.Is(r.err, ErrGone):
				unknown = r.err
				continue
			}
			answered++
		case <-ctx.Done():
			unknown = fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	switch {
	case resting != nil:
		return resting, nil
	case unknown != nil && answered > 0:
		return nil, fmt.Errorf("%w (%w)", unknown, errPartial)
	case unknown != nil:
		return nil, unknown
	default:
		return nil, ErrGone
	}
}

// Failing reports for each member, by its cluster, that it answers nobody at present.
// A single member is not watched here: see [CacheStats.Failing].
func (u *Union) Failing() map[string]bool {
	now := int64(time.Since(u.birth))
	failing := make(map[string]bool, len(u.members))
	for _, m := range u.members {
		failing[m.Cluster] = m.health.failing(now)
	}
	return failing
}

func (u *Union) askIfWell(ctx context.Context, m *member, id string) (*Route, error) {
	now := func() int64 { return int64(time.Since(u.birth)) }
	if err := m.health.refuse(now()); err != nil {
		m.Counts.notAsked()
		return nil, fmt.Errorf("cluster %s: %w", m.Cluster, err)
	}
	r, err := u.ask(ctx, m, id)
	m.health.report(now(), err, memberTimeout)
	return r, err
}

func (u *Union) ask(ctx context.Context, m *member, id string) (*Route, error) {
	begun := time.Now()
	r, err := m.Registry.Lookup(ctx, id)
	m.Counts.answered(err, time.Since(begun))
	if err != nil {
		if errors.Is(err, ErrGone) {
			return nil, err
		}
		return nil, fmt.Errorf("cluster %s: %w", m.Cluster, err)
	}
	if r.Cluster != m.Cluster {
		named := *r
		named.Cluster = m.Cluster
		r = &named
	}
	return r, nil
}

// Watch implements [Watcher] for the members that can watch.
func (u *Union) Watch(ctx context.Context, changed func(sandboxID string)) {
	var wg sync.WaitGroup
	for _, m := range u.members {
		if w, ok := m.Registry.(Watcher); ok {
			wg.Go(func() { w.Watch(ctx, changed) })
		}
	}
	wg.Wait()
}
