package module

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/routing"
)

// Health is the answer to the question whether requests should come here.
//
// A load balancer that finds no gateway ready answers by itself, with 502 or 503, and
// every E2B SDK takes that for the death of the sandbox. What all gateways share, a
// Redis or a ROCK that is down, would make all of them unready at once: programs
// would throw live sandboxes away that the gateways, asked, would have said are
// alive, and many of which they would have reached with what they remember. So
// a gateway that was ready once stays so until it exits, and says what is wrong with
// status 200. Before that it waits until it has seen one cluster whole: a gateway
// with a wrong password must not replace one with the right one.
type Health struct {
	Ready bool `json:"ready"`
	// Degraded: something is wrong, and requests are served as well as can be.
	Degraded bool `json:"degraded,omitempty"`
	// Reasons are what is wrong.
	Reasons []HealthReason `json:"reasons,omitempty"`
}

// HealthReason is one thing that is wrong. It names no address and no error: those
// are in the log, and at GET /e2b/status.
type HealthReason struct {
	Reason string `json:"reason"`
	// Cluster is whose trouble it is, "" when it is not one cluster's.
	Cluster string `json:"cluster,omitempty"`
	// Covered: sandboxes that are remembered are served in spite of it.
	Covered bool `json:"covered,omitempty"`
}

// The reasons.
const (
	// reasonDraining: the process exits.
	reasonDraining = "draining"
	// reasonStarting: since the process began no cluster was seen whole.
	reasonStarting = "starting"
	// reasonReplaced: the config that was asked runs no more.
	reasonReplaced = "config_replaced"
	// reasonRegistry: the registry of the cluster does not answer.
	reasonRegistry = "registry_unreachable"
	// reasonAdmin and reasonProxy: no address of the role accepts connections.
	reasonAdmin = "admin_unreachable"
	reasonProxy = "proxy_unreachable"
)

const (
	// healthEvery is how often the clusters are looked at, at most, whoever asks how
	// often; healthSoon is that while one is not whole.
	healthEvery = 5 * time.Second
	healthSoon  = time.Second
	// healthPatience is how long a look may take: less than the second that Kubernetes
	// gives a probe by default.
	healthPatience = 800 * time.Millisecond
)

// wasReady is set once the process has been ready.
var wasReady atomic.Bool

// health looks at the clusters of a config.
type health struct {
	clusters []clusterHealth
	// remembers reports that there are routes to fall back to.
	remembers func() bool
	// cover is how long after its last answer a registry's routes are used.
	cover time.Duration
	// wasReady is the process's, but for tests.
	wasReady *atomic.Bool

	mu     sync.Mutex // held while somebody looks: the others wait for what is found
	looked time.Time
	found  []clusterState
}

// clusterHealth is how one cluster is looked at. Each function returns before ctx ends,
// or soon after.
type clusterHealth struct {
	name         string
	registry     func(context.Context) error
	admin, proxy func(context.Context) bool
	// answered is when the registry last did, nil before. It is kept with the routes, which
	// a reload leaves alone.
	answered *atomic.Pointer[time.Time]
}

// clusterState is what was found.
type clusterState struct{ registry, admin, proxy bool }

// healthOf makes the health of the live parts of a config.
func (l *live) healthOf() *health {
	h := &health{
		remembers: func() bool { return l.routes.cache.Stats().Entries > 0 },
		cover:     l.routes.cache.Cover(),
		wasReady:  &wasReady,
	}
	for i, c := range l.members {
		registry := l.routes.registries[i]
		h.clusters = append(h.clusters, clusterHealth{
			name:     c.Name,
			registry: func(ctx context.Context) error { return routing.Ping(ctx, registry) },
			admin:    c.Admin.Reach,
			proxy:    c.Proxy.Reach,
			answered: &l.routes.answered[i],
		})
	}
	return h
}

// ready says whether requests should come. strict: not while no cluster can be used.
func (h *health) ready(ctx context.Context, strict bool) Health {
	if caddy.Exiting() {
		return Health{Reasons: []HealthReason{{Reason: reasonDraining}}}
	}
	reasons, whole, usable := h.look(ctx)
	if whole {
		h.wasReady.Store(true)
	}
	switch {
	case !h.wasReady.Load():
		return Health{Reasons: append([]HealthReason{{Reason: reasonStarting}}, reasons...)}
	case strict && !usable:
		return Health{Reasons: reasons}
	default:
		return Health{Ready: true, Degraded: len(reasons) > 0, Reasons: reasons}
	}
}

// look finds out what is wrong. whole: nothing is with one of the clusters. usable:
// nothing that is not covered.
func (h *health) look(ctx context.Context) (reasons []HealthReason, whole, usable bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if every := h.every(); h.found == nil || time.Since(h.looked) >= every {
		h.lookNow(ctx)
	}
	for i, c := range h.clusters {
		s := &h.found[i]
		answered := c.answered.Load()
		covered := !s.registry && answered != nil && time.Since(*answered) < h.cover && h.remembers()
		for _, part := range []struct {
			well   bool
			reason HealthReason
		}{
			{s.registry, HealthReason{reasonRegistry, c.name, covered}},
			{s.admin, HealthReason{reasonAdmin, c.name, false}},
			{s.proxy, HealthReason{reasonProxy, c.name, false}},
		} {
			if !part.well {
				reasons = append(reasons, part.reason)
			}
		}
		whole = whole || s.registry && s.admin && s.proxy
		usable = usable || (s.registry || covered) && s.admin && s.proxy
	}
	return reasons, whole, usable
}

// every is how old what was found may be.
func (h *health) every() time.Duration {
	for _, s := range h.found {
		if !s.registry || !s.admin || !s.proxy {
			return healthSoon
		}
	}
	return healthEvery
}

// lookNow looks at all clusters at once. Whoever asks may leave: the others want to know.
func (h *health) lookNow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthPatience)
	defer cancel()
	if h.found == nil {
		h.found = make([]clusterState, len(h.clusters))
	}
	var looks sync.WaitGroup
	for i, c := range h.clusters {
		s := &h.found[i]
		looks.Go(func() {
			if s.registry = c.registry(ctx) == nil; s.registry {
				now := time.Now()
				c.answered.Store(&now)
			}
		})
		looks.Go(func() { s.admin = c.admin(ctx) })
		looks.Go(func() { s.proxy = c.proxy(ctx) })
	}
	looks.Wait()
	h.looked = time.Now()
}

// The paths of both answers, at the admin endpoint and where `e2b health` serves them.
const (
	readyPath = "/e2b/ready"
	livePath  = "/e2b/live"
)

// ready needs no app: a process without one has nothing that could be wrong.
func (a *Admin) ready(w http.ResponseWriter, r *http.Request) error {
	app, err := a.ctx.AppIfConfigured(name)
	if err != nil {
		return answerReady(w, Health{Ready: !caddy.Exiting()})
	}
	return app.(*App).shared.answerReady(w, r)
}

func (a *Admin) alive(w http.ResponseWriter, _ *http.Request) error { return answerLive(w) }

// answerReady answers for the config that runs.
func (s *shared) answerReady(w http.ResponseWriter, r *http.Request) error {
	live, err := s.acquire()
	if err != nil {
		return answerReady(w, Health{Reasons: []HealthReason{{Reason: reasonReplaced}}})
	}
	defer s.release()
	return answerReady(w, live.health.ready(r.Context(), r.URL.Query().Get("strict") == "true"))
}

func answerReady(w http.ResponseWriter, h Health) error {
	status := http.StatusOK
	if !h.Ready {
		status = http.StatusServiceUnavailable
	}
	return answerJSON(w, status, h)
}

// answerLive says that the process works. It looks at nothing: whatever is wrong with
// others, to start this process anew would end streams and mend nothing.
func answerLive(w http.ResponseWriter) error {
	return answerJSON(w, http.StatusOK, map[string]bool{"live": true})
}

// serveHealth is the handler of `e2b health`.
func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.URL.Path != readyPath && r.URL.Path != livePath:
		return answerJSON(w, http.StatusNotFound, map[string]string{"error": errNoHealth.Error()})
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		return answerJSON(w, http.StatusMethodNotAllowed, map[string]string{"error": "the method is not allowed"})
	case r.URL.Path == livePath:
		return answerLive(w)
	default:
		return h.shared.answerReady(w, r)
	}
}

var errNoHealth = errors.New("there are " + readyPath + " and " + livePath + " here, and nothing else")
