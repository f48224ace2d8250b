package routing

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Member is one cluster's registry in a [Union].
type Member struct {
	Cluster  string
	Registry Registry
}

// Union asks the registries of several clusters as one. It keeps the three
// answers apart: here when any member says here; gone only when every member
// answered gone; don't know otherwise.
type Union struct{ members []Member }

// NewUnion joins members. When two of them hold the same sandbox, a running one wins.
func NewUnion(members []Member) *Union { return &Union{members} }

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
			r, err := u.ask(ctx, m, id)
			replies <- reply{r, err}
		}()
	}
	var resting *Route // here, but not running
	var unknown error
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
			}
		case <-ctx.Done():
			unknown = fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	switch {
	case resting != nil:
		return resting, nil
	case unknown != nil:
		return nil, unknown
	default:
		return nil, ErrGone
	}
}

func (u *Union) ask(ctx context.Context, m Member, id string) (*Route, error) {
	r, err := m.Registry.Lookup(ctx, id)
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
