package handlers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/listing"
	"github.com/caddy-e2b/gateway/routing"
)

// This file finds out whose the sandboxes of a list are that do not carry their owner's name: made past the gateway, or by
// one that noted less.

const (
	// lookupsAtOnce is how many owners of one list are looked up at a time.
	lookupsAtOnce = 8
	// maxOrigins is how many owners are remembered. One takes about 200 bytes.
	maxOrigins = 50_000
	// censusAge is how old the gateway's knowledge of sandboxes that carry no name may be. One that is made past the
	// gateway is in its owner's list after that time at the latest.
	censusAge = 30 * time.Second
)

// errKeys is wrapped by errors of the store of API keys.
var errKeys = errors.New("the keys cannot be asked")

// noteOf is the owner that an item names itself.
func noteOf(item *listing.Item) routing.Owner {
	if owner := routing.ParseOwner(item.Note); owner.Subject != "" || item.Note != "" {
		return owner
	}
	return routing.Owner{Subject: item.Subject}
}

// oneLife is one life of a sandbox, whose owner never changes.
type oneLife struct {
	cluster, id string
	started     int64
}

// origins remembers the owners of sandboxes that had to be looked up.
type origins struct {
	mu    sync.Mutex
	known map[oneLife]routing.Owner
}

func (o *origins) get(of oneLife) (routing.Owner, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	owner, ok := o.known[of]
	return owner, ok
}

func (o *origins) put(of oneLife, owner routing.Owner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known) >= maxOrigins {
		o.known = map[oneLife]routing.Owner{} // they are found again
	}
	o.known[of] = owner
}

// owners sifts what a cluster has for one list.
type owners struct {
	list     *list
	cluster  *routing.Cluster
	subjects map[[32]byte]string // by digest of the key
}

func (l *list) newOwners(cluster *routing.Cluster) *owners {
	return &owners{l, cluster, map[[32]byte]string{}}
}

// sift keeps the items that the caller may see. Errors wrap errRegistry or errKeys.
func (o *owners) sift(ctx context.Context, items []listing.Item) ([]listing.Item, error) {
	who := o.list.who
	if who == nil || who.admin() {
		return items, nil
	}
	found, err := o.lookup(ctx, items)
	if err != nil {
		return nil, err
	}
	kept := items[:0]
	for i, item := range items {
		if found[i] == nil {
			continue
		}
		subject, err := o.subjectOf(ctx, *found[i])
		switch {
		case err != nil:
			return nil, err
		case subject == who.key.Subject, subject == "" && who.access.AllowUnowned:
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// subjectOf asks the store once for each key.
func (o *owners) subjectOf(ctx context.Context, owner routing.Owner) (string, error) {
	if subject, ok := o.subjects[owner.Key]; ok && owner.Subject == "" {
		return subject, nil
	}
	subject, err := o.list.who.access.subjectOf(ctx, owner)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errKeys, err)
	}
	if owner.Subject == "" {
		o.subjects[owner.Key] = subject
	}
	return subject, nil
}

// lookup finds the owners of items, nil for those that no registry has any more.
func (o *owners) lookup(ctx context.Context, items []listing.Item) ([]*routing.Owner, error) {
	found := make([]*routing.Owner, len(items))
	errs := make([]error, len(items))
	places := make(chan struct{}, lookupsAtOnce)
	var wg sync.WaitGroup
	for i := range items {
		of := oneLife{o.cluster.Name, items[i].SandboxID, items[i].StartedAt.UnixNano()}
		if owner := noteOf(&items[i]); owner.Subject != "" {
			found[i] = &owner
		} else if owner, ok := o.list.g.lists.origins.get(of); ok {
			found[i] = &owner
		} else {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				found[i], errs[i] = o.ask(ctx, of)
			})
		}
	}
	wg.Wait()
	return found, errors.Join(errs...)
}

// ask looks an owner up in the registry. What has no record there is nobody's to show, and so is what has one that
// cannot be read.
func (o *owners) ask(ctx context.Context, of oneLife) (*routing.Owner, error) {
	route, _, err := o.list.g.opt.Routes.Lookup(ctx, of.id)
	switch {
	case err == nil && (route.Cluster == "" || route.Cluster == of.cluster):
		o.list.g.lists.origins.put(of, route.Owner)
		return &route.Owner, nil
	case err == nil, errors.Is(err, routing.ErrGone), errors.Is(err, routing.ErrMalformed):
		return nil, nil
	default:
		return nil, fmt.Errorf("%w: %w", errRegistry, err)
	}
}

// census are the running sandboxes of a cluster that do not carry their owner's name. To find them takes a look through
// all that there is, so it is made for all callers together, and from time to time.
type census struct {
	mu    sync.Mutex
	taken time.Time
	items []listing.Item
}

// last is the last census, if it is not too old.
func (c *census) last() ([]listing.Item, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.items, !c.taken.IsZero() && time.Since(c.taken) < censusAge
}

// unnoted are the caller's sandboxes that do not carry his name. ROCK's own list failing is no reason to show none of the
// others, so what it showed last is used then.
func (l *list) unnoted(ctx context.Context, cluster *routing.Cluster) ([]listing.Item, error) {
	all, err := l.count(ctx, cluster)
	if err != nil {
		return nil, err
	}
	items := make([]listing.Item, 0, len(all))
	for _, item := range all {
		if l.wants(&item) {
			items = append(items, item)
		}
	}
	if items, err = l.newOwners(cluster).sift(ctx, items); err != nil {
		return nil, err
	}
	return l.stillRunning(ctx, items)
}

// count takes the census if the last one is too old.
func (l *list) count(ctx context.Context, cluster *routing.Cluster) ([]listing.Item, error) {
	c := l.g.lists.censuses[cluster.Name]
	items, good := c.last()
	if good {
		return items, nil
	}
	if _, err := l.g.lists.counting.join(ctx, &l.g.tasks, cluster.Name, func() error { return l.take(cluster, c) }); err != nil {
		return nil, err
	}
	items, _ = c.last() // however long it took
	return items, nil
}

// take takes the census. It owes nothing to the call that has asked for it first but what it leaves out.
func (l *list) take(cluster *routing.Cluster, c *census) error {
	if _, good := c.last(); good {
		return nil // taken since it was found too old
	}
	ctx, cancel := context.WithTimeout(l.g.ctx, l.g.opt.ControlTimeout)
	defer cancel()
	begun := time.Now()
	var found []listing.Item
	err := l.walk(ctx, cluster, func(items []listing.Item) error {
		for _, item := range items {
			if item.Subject == "" {
				found = append(found, item)
			}
		}
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.items = found
	case !rockFailed(err):
		return err
	default:
		l.skip(cluster, "", err)
	}
	c.taken = begun
	return nil
}

// stillRunning leaves out what has ended since the census, and what no page has room for.
func (l *list) stillRunning(ctx context.Context, items []listing.Item) ([]listing.Item, error) {
	items = l.inOrder(items)
	kept := items[:0]
	for _, item := range items {
		if limit := l.query.Limit; limit > 0 && len(kept) > limit {
			break
		}
		route, _, err := l.g.opt.Routes.Lookup(ctx, item.SandboxID)
		switch {
		case err == nil && route.State != routing.StateRunning, errors.Is(err, routing.ErrGone):
		case errors.Is(err, routing.ErrUnavailable):
			return nil, fmt.Errorf("%w: %w", errRegistry, err)
		default:
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// complaints remembers when something was last complained of.
type complaints struct {
	mu   sync.Mutex
	last time.Time
}

// due reports whether it is time to complain again, and takes it that it is done.
func (c *complaints) due(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() && now.Sub(c.last) < complaintInterval {
		return false
	}
	c.last = now
	return true
}
