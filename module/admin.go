package module

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/routing"
)

// Admin is the module "admin.api.e2b": what operators can read about the
// gateway at Caddy's admin endpoint. It changes nothing.
//
// Path | Answer
// -----|-------
// `GET /e2b/ready` | 200 `{"ready":true}`, and 503 `{"ready":false}` from the signal to exit on, so that a load balancer takes the gateway out. Together with `shutdown_delay` nobody notices that it goes.
// `GET /e2b/status` | JSON: the counters of the route cache since it was made, and which addresses of the roles accept connections. See [Status].
type Admin struct{ ctx caddy.Context }

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api." + name, New: func() caddy.Module { return new(Admin) }}
}

// Provision keeps the context. The app is asked for with each request: it is
// provisioned later than the admin endpoint.
func (a *Admin) Provision(ctx caddy.Context) error {
	a.ctx = ctx
	return nil
}

// Routes returns the paths.
func (a *Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/e2b/ready", Handler: caddy.AdminHandlerFunc(a.ready)},
		{Pattern: "/e2b/status", Handler: caddy.AdminHandlerFunc(a.serve)},
	}
}

// Status is the answer to GET /e2b/status.
type Status struct {
	// Cache are the counters of the route cache. They survive a reload that
	// leaves the registries alone.
	Cache routing.CacheStats `json:"cache"`
	// Clusters are the addresses of the roles, by cluster.
	Clusters map[string]ClusterStatus `json:"clusters"`
}

// ClusterStatus is the state of one cluster.
type ClusterStatus struct {
	Admin []AddressStatus `json:"admin"`
	Proxy []AddressStatus `json:"proxy"`
}

// AddressStatus is the state of one address of a role.
type AddressStatus struct {
	// Address is "host:port".
	Address string `json:"address"`
	// Up is false from a failed attempt to connect until the next that works.
	Up bool `json:"up"`
}

// ready needs no app: a process that does not exit and answers here is ready.
func (a *Admin) ready(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s not allowed", r.Method)}
	}
	ready := !caddy.Exiting()
	w.Header().Set("Content-Type", "application/json")
	if !ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return json.NewEncoder(w).Encode(map[string]bool{"ready": ready})
}

func (a *Admin) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s not allowed", r.Method)}
	}
	app, err := a.ctx.AppIfConfigured(name)
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: err}
	}
	shared := app.(*App).shared
	live, err := shared.acquire()
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusInternalServerError, Err: err}
	}
	defer shared.release()
	status := Status{Cache: live.routes.cache.Stats(), Clusters: map[string]ClusterStatus{}}
	for _, c := range live.members {
		status.Clusters[c.Name] = ClusterStatus{Admin: addresses(c.Admin), Proxy: addresses(c.Proxy)}
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(status)
}

func addresses(b *routing.Balancer) []AddressStatus {
	var list []AddressStatus
	for _, e := range b.Endpoints() {
		list = append(list, AddressStatus{Address: e.Address, Up: e.Up()})
	}
	return list
}

var (
	_ caddy.Provisioner = (*Admin)(nil)
	_ caddy.AdminRouter = (*Admin)(nil)
)
