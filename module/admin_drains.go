package module

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/routing"
)

// Drained is the answer to a PUT of a drain.
type Drained struct {
	SandboxID string              `json:"sandbox_id,omitempty"`
	Cluster   string              `json:"cluster,omitempty"`
	Scope     handlers.DrainScope `json:"scope"`
	// Streams is how many were told to end.
	Streams int `json:"ended_streams"`
}

// Restored is the answer to a DELETE of a drain.
type Restored struct {
	SandboxID string `json:"sandbox_id,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
}

func (a *Admin) drains(w http.ResponseWriter, _ *http.Request) error {
	return answerJSON(w, http.StatusOK, drains.List())
}

func (a *Admin) drainSandbox(r *http.Request) (any, error) {
	id, err := sandboxIn(r.PathValue("sandbox"))
	if err != nil {
		return nil, err
	}
	if !drains.Sandbox(id) {
		return nil, caddy.APIError{HTTPStatus: http.StatusConflict,
			Err: fmt.Errorf("%d sandboxes are drained already, which is the most", handlers.MaxDrainedSandboxes)}
	}
	return Drained{SandboxID: id, Scope: handlers.DrainAll, Streams: end(handlers.StreamFilter{SandboxID: id})}, nil
}

func (a *Admin) restoreSandbox(r *http.Request) (any, error) {
	id, err := sandboxIn(r.PathValue("sandbox"))
	if err != nil {
		return nil, err
	}
	if !drains.RestoreSandbox(id) {
		return nil, notFound("the sandbox is not drained")
	}
	return Restored{SandboxID: id}, nil
}

func (a *Admin) drainCluster(r *http.Request) (any, error) {
	scope := cmp.Or(handlers.DrainScope(r.URL.Query().Get("scope")), handlers.DrainCreates)
	if scope != handlers.DrainCreates && scope != handlers.DrainAll {
		return nil, badRequest(errors.New("scope must be creates or all"))
	}
	live, release, err := a.live()
	if err != nil {
		return nil, err
	}
	defer release()
	cluster := r.PathValue("cluster")
	if !slices.ContainsFunc(live.members, func(c *routing.Cluster) bool { return c.Name == cluster }) {
		return nil, notFound("there is no such cluster")
	}
	drains.Cluster(cluster, scope)
	done := Drained{Cluster: cluster, Scope: scope}
	if scope == handlers.DrainAll {
		done.Streams = end(handlers.StreamFilter{Cluster: cluster})
	}
	return done, nil
}

// restoreCluster needs no such cluster: a reload may have taken it away meanwhile.
func (a *Admin) restoreCluster(r *http.Request) (any, error) {
	cluster := r.PathValue("cluster")
	if !drains.RestoreCluster(cluster) {
		return nil, notFound("the cluster is not drained")
	}
	return Restored{Cluster: cluster}, nil
}
