package handlers

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/routing"
)

// Upstream sends a request to the address in its URL.Host, as made by
// upstream.Host. It never replays a request of which a byte was written. A
// failure before that is an *upstream.DialError.
type Upstream interface {
	RoundTrip(*http.Request) (*http.Response, error)
}

// Options are the parts of a Gateway. Zero values mean the defaults.
type Options struct {
	// Clusters are the deployments behind the gateway, at least one. Where
	// nothing else decides, new sandboxes are created in the first.
	Clusters []*routing.Cluster
	// Routes answers where a sandbox is.
	Routes *routing.Cache
	// Upstream sends requests.
	Upstream Upstream
	// Access is who gets in. Nil: everybody.
	Access *Access
	// RockAPI is who may use ROCK's own API through the gateway. Without Access
	// it is nobody. Default: RockAPIOff.
	RockAPI RockAPI
	// Domains are the names below which sandboxes have hosts. Default: none.
	Domains []routing.Domain
	// ShowAddress leaves the addresses that ROCK puts into metadata there.
	ShowAddress bool
	// ReadyTimeout is how long a call of the data plane waits for its sandbox to
	// start. Negative: not at all. Default: 2m.
	ReadyTimeout time.Duration
	// ReadyWaiting is how many calls wait at a time for sandboxes to start, a
	// quarter of them, or 256 if that is more, for one sandbox at most.
	// Default: 10000.
	ReadyWaiting int
	// Activity is how often, at most, the timeout of a sandbox in use is pushed
	// back in ROCK. Negative: never. Default: 30s.
	Activity time.Duration
	// CORS says whether pages of other origins may read the answers.
	// Default: CORSOn.
	CORS CORS
	// Limits is how much they may take. Nil: as much as they like.
	Limits *limit.Limiter
	// MaxHeader is the longest that a request's line and headers may be
	// together, in bytes. Longer ones are refused with 431. Negative: the
	// server's own limit is the only one. Default: 64 KiB.
	MaxHeader int
	// ControlTimeout bounds a control-plane call, from its first byte sent to
	// its last byte received. ROCK's create blocks until the sandbox is up,
	// so it is long. Default: 15m.
	ControlTimeout time.Duration
	// MaxControlBody is the longest control-plane request body, in bytes.
	// Longer ones are refused with 413. Default: 1 MiB.
	MaxControlBody int64
	// BufferBody is the longest data-plane request body, in bytes, that is
	// read whole before the request is sent on. It applies to bodies of known
	// length only. Default: 64 KiB.
	BufferBody int64
	// MaxHeldEnvelope is the longest envelope of a Connect stream, in bytes,
	// that is held until it is whole. Default: 1 MiB.
	MaxHeldEnvelope int
	// DefaultLifetime is the timeout given to a sandbox whose creator names
	// none, as newer SDKs do. Default: 300s, E2B's own.
	DefaultLifetime time.Duration
	// LookBound bounds the search for the reason why a connection to a
	// sandbox was lost. The call is held for as long. Default: 1s.
	LookBound time.Duration
	// Deaths is shared by the gateways that may serve the same sandboxes.
	// Default: one of this gateway's own.
	Deaths *Deaths
	// Counts are what calls leave behind for metrics, by the name of their cluster, and
	// under "" those for which no cluster was asked. Gateways that follow one another
	// share them. Default, also for each that is missing: the gateway's own.
	Counts map[string]*Counts
	// Drains is what operators have taken out of service. Nil: nothing ever is.
	Drains *Drains
	// History is told of calls that took long. Nil: nobody is.
	History *History
	// UpstreamIdle is how long a sandbox may be silent while it is its turn,
	// for every call of the data plane; never less than 2.5 of the keepalive
	// intervals that a stream's client asked for. Negative: for ever. Default: a
	// stream may be silent for ever until its first keepalive message; from
	// then on for three of the intervals.
	UpstreamIdle time.Duration
	// Silence takes timeouts of the server's off calls of the data plane that last.
	// Default: there are none.
	Silence Silence
	// ClientStall is how long a client may take nothing of an answer before it
	// is dropped: it must take 32 KiB within that time, or all there is.
	// It is also how long a sandbox may be silent on a WebSocket whose client
	// has ended its direction, and a client may take to send a request body of
	// at most BufferBody. Negative: for ever. Default: 5m.
	ClientStall time.Duration
}

// Gateway serves both planes.
type Gateway struct {
	opt      Options
	clusters map[string]*routing.Cluster
	hosts    *routing.Hosts
	streams  streams
	calls    calls
	looks    looks
	sweeper  sweeper
	shares   shares
	lists    *lists
	ready    readiness
	activity activity
	counts   []*Counts       // of the clusters, in their order, and then of none
	floor    time.Duration   // notFoundFloor, but for tests with sockets
	ctx      context.Context // ends with Close
	tasks    sync.WaitGroup  // that end with it
	close    []func()
	// rehearsal is set in a gateway that only explains what another would do.
	rehearsal *rehearsal
}

// defaultMaxHeldEnvelope is the default of Options.MaxHeldEnvelope, in bytes.
const defaultMaxHeldEnvelope = 1 << 20

// New makes a Gateway.
func New(opt Options) *Gateway {
	if opt.ControlTimeout == 0 {
		opt.ControlTimeout = 15 * time.Minute
	}
	if opt.MaxControlBody == 0 {
		opt.MaxControlBody = 1 << 20
	}
	if opt.MaxHeader == 0 {
		opt.MaxHeader = DefaultMaxHeader
	}
	if opt.BufferBody == 0 {
		opt.BufferBody = 64 << 10
	}
	if opt.MaxHeldEnvelope == 0 {
		opt.MaxHeldEnvelope = defaultMaxHeldEnvelope
	}
	if opt.DefaultLifetime == 0 {
		opt.DefaultLifetime = 300 * time.Second
	}
	if opt.ReadyTimeout == 0 {
		opt.ReadyTimeout = 2 * time.Minute
	}
	if opt.ReadyWaiting == 0 {
		opt.ReadyWaiting = 10_000
	}
	if opt.Activity == 0 {
		opt.Activity = 30 * time.Second
	}
	if opt.LookBound == 0 {
		opt.LookBound = time.Second
	}
	if opt.Deaths == nil {
		opt.Deaths = NewDeaths()
	}
	if opt.ClientStall == 0 {
		opt.ClientStall = 5 * time.Minute
	}
	g := &Gateway{opt: opt, clusters: map[string]*routing.Cluster{}, floor: notFoundFloor, hosts: routing.NewHosts(opt.Domains)}
	g.looks.g, g.sweeper.g, g.ready.g, g.activity.g = g, g, g, g
	g.sweeper.dirty = map[string]*routing.Route{}
	ctx, cancel := context.WithCancel(context.Background())
	g.ctx = ctx
	g.calls.over = make(chan struct{}, 1)
	g.looks.hurry = make(chan struct{})
	g.lists = newLists(opt.Clusters)
	g.shareCounts()
	for _, c := range opt.Clusters {
		g.clusters[c.Name] = c
	}
	g.close = []func(){opt.Deaths.join(g), opt.Routes.OnChange(g.sweeper.changed), opt.Routes.OnChange(g.ready.changed), cancel}
	if opt.Activity > 0 && opt.Routes.Extends() {
		g.activity.on = true
		g.tasks.Go(func() { g.activity.run(ctx) })
	}
	return g
}

// Close ends the gateway's interest in what becomes of sandboxes. Its owner
// calls it after the last request.
func (g *Gateway) Close() {
	for _, f := range g.close {
		f()
	}
	g.tasks.Wait()
}
