package routing

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Source says where the answer of [Cache.Lookup] came from.
type Source uint8

const (
	// SourceCache: from memory, not older than [CacheOptions.TTL].
	SourceCache Source = iota + 1
	// SourceRegistry: the registry was asked for it.
	SourceRegistry
	// SourceStale: the last known route, because the registry could not be
	// asked, or not yet. Whoever routes by it should say so in its log.
	SourceStale
)

// String is the source's name in logs and metrics.
func (s Source) String() string {
	switch s {
	case SourceCache:
		return "cache"
	case SourceRegistry:
		return "registry"
	case SourceStale:
		return "stale"
	default:
		return "none"
	}
}

// CacheOptions tunes a [Cache]. A zero field means its default, a negative
// Negative, Stale or Patience means none.
type CacheOptions struct {
	// TTL is how long a running route is served from memory. It counts from
	// the moment the registry was asked and no hit makes it longer; one in its
	// last quarter makes the cache ask again. Default: 10s.
	TTL time.Duration
	// Negative is how long every other answer is served from memory: gone,
	// and a record whose state is not running. It is short because each of
	// them is about to change when somebody cares. Default: 1s.
	Negative time.Duration
	// Stale is how long after its TTL a running route may still be served
	// while the registry does not know. Default: 5m.
	Stale time.Duration
	// Patience is how long a caller waits for a lookup when there is a last
	// known route to fall back to, and how long a lookup waits for an earlier
	// one of the same sandbox before it runs beside it. Default: 200ms.
	Patience time.Duration
	// LookupTimeout bounds one lookup. A registry that ignores its context is
	// left behind a tenth later. Default: 1s.
	LookupTimeout time.Duration
	// QueueTimeout bounds the wait for a place among MaxLookups. A registry
	// that is found to fail in the meantime ends it. Default: 5s.
	QueueTimeout time.Duration
	// MaxEntries bounds the memory. When it is reached the oldest answer of
	// the Negative kind leaves, and if there is none the oldest route.
	// Default: 1,000,000, which takes 390 MB when there are as many routes.
	MaxEntries int
	// MaxLookups is how many lookups run at a time. More wait their turn,
	// at most QueueTimeout, and then fail with [ErrUnavailable]. Lookups for
	// strangers have an eighth as many places of their own. Default: 64.
	MaxLookups int
}

func (o CacheOptions) withDefaults() CacheOptions {
	duration := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
		*d = max(*d, 0)
	}
	duration(&o.TTL, 10*time.Second)
	duration(&o.Negative, time.Second)
	duration(&o.Stale, 5*time.Minute)
	duration(&o.Patience, 200*time.Millisecond)
	if o.LookupTimeout <= 0 {
		o.LookupTimeout = time.Second
	}
	if o.QueueTimeout <= 0 {
		o.QueueTimeout = 5 * time.Second
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = 1_000_000
	}
	if o.MaxLookups <= 0 {
		o.MaxLookups = 64
	}
	return o
}

// Cache answers lookups from memory and asks its [Registry] for the rest. It
// keeps the registry's three answers apart, whatever the registry does:
//
//   - here and gone are remembered, each for its time;
//   - don't know is never remembered. A caller gets the last known running
//     route if there is one, else the error.
//
// For one sandbox there is one lookup at a time; whoever needs its answer
// shares it. Lookups belong to the cache and not to a caller: a caller that
// leaves does not disturb them. While the registry fails, it is asked only a
// few times a second, callers with a last known route are served at once and
// the others are refused at once.
//
// A hit takes no lock, does no I/O and allocates nothing, but for the one that has
// its route renewed. All methods may be used concurrently.
type Cache struct {
	reg Registry
	opt CacheOptions

	// birth is the zero of every time the cache keeps, in nanoseconds on the
	// monotonic clock.
	birth time.Time
	// epoch counts the times that everything was invalidated.
	epoch atomic.Uint64

	entries index // written under mu

	mu      sync.Mutex
	routes  entryList            // running routes, oldest first
	briefs  entryList            // all other answers, oldest first
	flights map[string][]*flight // unfinished lookups by sandbox, oldest first
	// mappings are unfinished questions for the ports of a route.
	mappings map[*Route]*mapping
	// listeners are told of pushed changes.
	listeners map[*func(string)]struct{}

	places [askers]places // for lookups, by who gave rise to them
	health health
	count  counters

	ctx   context.Context // ends with Close; parent of every lookup
	close context.CancelFunc
}

// NewCache returns an empty cache in front of reg. It starts nothing: see
// [Cache.Run] for push invalidation and [Cache.Close] for the end.
func NewCache(reg Registry, opt CacheOptions) *Cache {
	opt = opt.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	return &Cache{
		reg:      reg,
		opt:      opt,
		birth:    time.Now(),
		entries:  newIndex(opt.MaxEntries),
		flights:  make(map[string][]*flight),
		mappings: make(map[*Route]*mapping),
		places: [askers]places{
			Known:    {free: make(chan struct{}, opt.MaxLookups)},
			Stranger: {free: make(chan struct{}, max(opt.MaxLookups/strangersShare, 1)), most: strangersQueue},
		},
		ctx:   ctx,
		close: cancel,
	}
}

// Run keeps the cache informed of changes until ctx ends, if the registry is a
// [Watcher]; if not it only waits for that. It blocks: the owner of the cache
// gives it a goroutine.
func (c *Cache) Run(ctx context.Context) {
	if w, ok := c.reg.(Watcher); ok {
		w.Watch(ctx, func(sandboxID string) {
			// Who tells can be asked: what it tells of is to be asked for now.
			c.health.report(c.now(), nil, c.opt.LookupTimeout)
			c.Invalidate(sandboxID)
			c.tell(sandboxID)
		})
	}
	<-ctx.Done()
}

// OnChange calls changed with what the registry pushes, after the cache has
// taken note of it: the id of a sandbox whose record may have changed, or "" for
// any. changed must return soon. stop ends that; a call may still be under way
// when it returns.
func (c *Cache) OnChange(changed func(sandboxID string)) (stop func()) {
	key := &changed
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listeners == nil {
		c.listeners = map[*func(string)]struct{}{}
	}
	c.listeners[key] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, key)
	}
}

func (c *Cache) tell(sandboxID string) {
	c.mu.Lock()
	listeners := slices.Collect(maps.Keys(c.listeners))
	c.mu.Unlock()
	for _, changed := range listeners {
		(*changed)(sandboxID)
	}
}

// Close gives up every lookup in progress and refuses new ones with
// [ErrUnavailable]. What is in memory is still served, because requests may
// outlive the configuration they came in by. Close does not wait.
func (c *Cache) Close() { c.close() }

// Lookup returns the route of a sandbox and where it came from. The route is
// shared and must not be changed. Errors:
//
//   - [ErrGone]: the registry said so, now or within the last Negative;
//   - [ErrInvalidSandboxID]: nothing was asked;
//   - [ErrUnavailable], [ErrMalformed] and others: don't know, and no route of
//     the last Stale is known either;
//   - the cause of ctx's end. The lookup goes on without the caller.
//
// Lookup returns after QueueTimeout, LookupTimeout and a tenth of it at the
// latest.
func (c *Cache) Lookup(ctx context.Context, sandboxID string) (*Route, Source, error) {
	return c.LookupFor(ctx, Known, sandboxID)
}

// LookupFor is Lookup for an asker of whom something is known, or nothing.
func (c *Cache) LookupFor(ctx context.Context, asker Asker, sandboxID string) (*Route, Source, error) {
	e := c.entries.load(sandboxID)
	if now := c.now(); c.current(e, now) {
		c.hit(asker, e, now)
		return e.answer()
	}
	return c.miss(ctx, asker, sandboxID)
}

func (c *Cache) miss(ctx context.Context, asker Asker, sandboxID string) (*Route, Source, error) {
	c.count.misses.Add(1)
	if !ValidSandboxID(sandboxID) {
		return nil, SourceRegistry, ErrInvalidSandboxID
	}
	if last := c.entries.load(sandboxID); c.usable(last, c.now()) && last.failedSince(c.now()-int64(retryPause)) {
		if route := c.lastKnown(sandboxID); route != nil {
			return route, SourceStale, nil
		}
	}
	f, e, err := c.join(sandboxID, asker, acceptRunning)
	switch {
	case e != nil && (!e.running() || c.current(e, c.now())):
		return e.answer()
	case e != nil:
		c.count.served(c.now() - e.asked)
		return e.route, SourceStale, nil
	case err == nil:
		return c.await(ctx, f)
	}
	if route := c.lastKnown(sandboxID); route != nil {
		return route, SourceStale, nil
	}
	return nil, SourceRegistry, err
}

// await waits for the answer of f, with a last known route only for as long as
// patience lasts and with a failing registry not at all.
func (c *Cache) await(ctx context.Context, f *flight) (*Route, Source, error) {
	var hurry <-chan time.Time
	if c.usable(c.entries.load(f.sandboxID), c.now()) {
		patience := c.opt.Patience
		if c.health.failing(c.now()) {
			patience = 0
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		hurry = timer.C
	}
	for {
		select {
		case <-f.done:
			if f.err == nil || errors.Is(f.err, ErrGone) {
				return f.route, SourceRegistry, f.err
			}
			if route := c.lastKnown(f.sandboxID); route != nil {
				return route, SourceStale, nil
			}
			return nil, SourceRegistry, f.err
		case <-ctx.Done():
			return nil, SourceRegistry, context.Cause(ctx)
		case <-hurry:
			if route := c.lastKnown(f.sandboxID); route != nil {
				return route, SourceStale, nil
			}
			hurry = nil // it was invalidated while we waited for something newer
		}
	}
}

// lastKnown returns the route to use while the registry does not know, nil if
// there is none.
func (c *Cache) lastKnown(sandboxID string) *Route {
	now := c.now()
	e := c.entries.load(sandboxID)
	if !c.usable(e, now) {
		return nil
	}
	c.count.served(now - e.asked)
	return e.route
}

// Fresh asks the registry, whatever is in memory, and remembers the answer.
// Its answer is at least as new as the call: of the lookups in progress it
// shares only one that has not put its question yet. Errors are those of
// [Cache.Lookup], without its last known route: a don't know is returned.
func (c *Cache) Fresh(ctx context.Context, sandboxID string) (*Route, error) {
	return c.FreshFor(ctx, Known, sandboxID)
}

// FreshFor is Fresh for an asker of whom something is known, or nothing.
func (c *Cache) FreshFor(ctx context.Context, asker Asker, sandboxID string) (*Route, error) {
	c.count.fresh.Add(1)
	if !ValidSandboxID(sandboxID) {
		return nil, ErrInvalidSandboxID
	}
	f, _, err := c.join(sandboxID, asker, acceptUnasked)
	if err != nil {
		return nil, err
	}
	select {
	case <-f.done:
		return f.route, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Invalidate makes the cache ask again. No answer to a question put before the
// call is remembered.
//
// With an id, something is known to have happened to that sandbox: its route
// is dropped and will not be served as last known either, because an address
// that is known to be outdated may be another tenant's by now. With "" only
// the ability to hear of changes was lost: all routes are asked for again when
// next needed, and stay the last known ones until the registry answers.
func (c *Cache) Invalidate(sandboxID string) {
	c.count.invalidations.Add(1)
	if sandboxID == "" {
		c.epoch.Add(1)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fence(sandboxID)
	c.drop(sandboxID)
}

// Forget makes a sandbox gone for the Negative time, because it was just
// deleted through us. No answer to an earlier question brings it back, and no
// later record of the same lifecycle either.
//
// lifecycle is the [Route.Lifecycle] that was deleted, "" for the one in
// memory. If another one is in memory, then that sandbox was started anew
// before we learned that the old one is deleted: the registry is asked again
// instead.
func (c *Cache) Forget(sandboxID, lifecycle string) {
	c.count.invalidations.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fence(sandboxID)
	e := &entry{sandboxID: strings.Clone(sandboxID), epoch: c.epoch.Load(), asked: c.now()}
	switch known := c.entries.load(sandboxID); {
	case known == nil || known.route == nil:
		if lifecycle != "" {
			e.former = &Route{Lifecycle: strings.Clone(lifecycle)}
		} else if known != nil {
			e.former = known.former // a delete that is repeated says nothing new
		}
	case lifecycle != "" && lifecycle != known.route.Lifecycle:
		c.drop(sandboxID)
		return
	default:
		e.former = known.route
	}
	c.store(e)
}

func (c *Cache) now() int64 { return int64(time.Since(c.birth)) }
