package module

import (
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/routing"
)

// Status is the answer to GET /e2b/status.
type Status struct {
	// Time is the gateway's clock.
	Time time.Time `json:"time"`
	// Started is when the process began, as far as this module knows.
	Started time.Time `json:"started"`
	// Draining: the process is going away.
	Draining bool `json:"draining"`
	// Keys says whether API keys are asked for: "on" or "off".
	Keys string `json:"keys"`
	// Streams is how many streams and WebSockets run, also those that began under an
	// earlier config.
	Streams int `json:"streams"`
	// Cache are the counters of the route cache. They survive a reload that
	// leaves the registries alone.
	Cache routing.CacheStats `json:"cache"`
	// Clusters are the state of the clusters, by name.
	Clusters map[string]ClusterStatus `json:"clusters"`
	// Drains is what is taken out of service.
	Drains handlers.DrainList `json:"drains"`
}

// ClusterStatus is the state of one cluster.
type ClusterStatus struct {
	// Mode is "rock" or "direct".
	Mode     string          `json:"mode"`
	Registry RegistryStatus  `json:"registry"`
	Admin    []AddressStatus `json:"admin"`
	Proxy    []AddressStatus `json:"proxy"`
	Streams  int             `json:"streams"`
	// Drained is "", "creates" or "all".
	Drained handlers.DrainScope `json:"drained,omitempty"`
}

// RegistryStatus is the state of the registry of one cluster.
type RegistryStatus struct {
	// Kind is "redis", "control", "static", or the name of another module.
	Kind string `json:"kind"`
	// Failing: it answers nobody at present.
	Failing bool `json:"failing"`
}

// AddressStatus is the state of one address of a role.
type AddressStatus struct {
	// Address is "host:port".
	Address string `json:"address"`
	// Up is false from a failed attempt to connect until the next that works.
	Up bool `json:"up"`
}

var started = time.Now()

func (a *Admin) status(w http.ResponseWriter, _ *http.Request) error {
	live, release, err := a.live()
	if err != nil {
		return err
	}
	defer release()
	streams := map[string]int{}
	everywhere(func(g *handlers.Gateway) {
		for cluster, n := range g.StreamCounts() {
			streams[cluster] += n
		}
	})
	s := Status{
		Time: time.Now().UTC(), Started: started.UTC(), Draining: departure.draining(), Keys: "on",
		Cache: live.routes.cache.Stats(), Clusters: map[string]ClusterStatus{}, Drains: drains.List(),
	}
	if live.access == nil {
		s.Keys = "off"
	}
	for _, n := range streams {
		s.Streams += n
	}
	failing := live.routes.failing()
	for i, c := range live.members {
		s.Clusters[c.Name] = ClusterStatus{
			Mode:     string(c.Mode),
			Registry: RegistryStatus{Kind: live.kinds[i], Failing: failing[c.Name]},
			Admin:    addresses(c.Admin),
			Proxy:    addresses(c.Proxy),
			Streams:  streams[c.Name],
			Drained:  s.Drains.Clusters[c.Name].Scope,
		}
	}
	return answerJSON(w, http.StatusOK, s)
}

func addresses(b *routing.Balancer) []AddressStatus {
	var list []AddressStatus
	for _, e := range b.Endpoints() {
		list = append(list, AddressStatus{Address: e.Address, Up: e.Up()})
	}
	return list
}

func (a *Admin) history(w http.ResponseWriter, _ *http.Request) error {
	return answerJSON(w, http.StatusOK, history.Past())
}
