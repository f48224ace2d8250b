package module

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// RememberedRoute is a route in the answer to GET /e2b/routes.
type RememberedRoute struct {
	SandboxID string `json:"sandbox_id"`
	Cluster   string `json:"cluster"`
	// Owner is the subject that the gateway has noted, "" where the owner must be looked
	// up by a key: GET /e2b/routes/{sandbox} does.
	Owner string `json:"owner,omitempty"`
	// Host is the sandbox's own address, "" when it is not known.
	Host string `json:"host,omitempty"`
	// Age is how long ago the registry was asked, in seconds.
	Age float64 `json:"age_seconds"`
}

// RouteList is the answer to GET /e2b/routes.
type RouteList struct {
	// Total is how many there are, also those beyond the limit.
	Total  int               `json:"total"`
	Routes []RememberedRoute `json:"routes"`
}

// Limits of lists.
const (
	defaultListed = 1000
	mostListed    = 100_000
)

// limitIn is the query parameter "limit".
func limitIn(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return defaultListed, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostListed {
		return 0, badRequest(fmt.Errorf("limit must be a number from 1 to %d", mostListed))
	}
	return n, nil
}

// sandboxIn is the id of a sandbox that a request names.
func sandboxIn(id string) (string, error) {
	if !routing.ValidSandboxID(id) {
		return "", badRequest(routing.ErrInvalidSandboxID)
	}
	return id, nil
}

func (a *Admin) routes(w http.ResponseWriter, r *http.Request) error {
	live, release, err := a.live()
	if err != nil {
		return err
	}
	defer release()
	limit, err := limitIn(r)
	if err != nil {
		return err
	}
	cluster := r.URL.Query().Get("cluster")
	list := RouteList{Routes: []RememberedRoute{}}
	live.routes.cache.Entries(func(route *routing.Route, age time.Duration) bool {
		if cluster != "" && route.Cluster != cluster {
			return true
		}
		if list.Total++; list.Total <= limit {
			one := RememberedRoute{SandboxID: route.SandboxID, Cluster: route.Cluster, Owner: route.Owner.Subject, Age: age.Seconds()}
			if route.Host.IsValid() {
				one.Host = route.Host.String()
			}
			list.Routes = append(list.Routes, one)
		}
		return true
	})
	return answerJSON(w, http.StatusOK, list)
}

func (a *Admin) route(w http.ResponseWriter, r *http.Request) error {
	id, err := sandboxIn(r.PathValue("sandbox"))
	if err != nil {
		return err
	}
	live, release, err := a.live()
	if err != nil {
		return err
	}
	defer release()
	switch r.URL.Query().Get("fresh") {
	case "", "false":
		return answerJSON(w, http.StatusOK, live.gateway.Resolve(r.Context(), id))
	case "true":
		return answerJSON(w, http.StatusOK, live.gateway.ResolveFresh(r.Context(), id))
	default:
		return badRequest(errors.New("fresh must be true or false"))
	}
}

// Invalidated is the answer to a DELETE of routes.
type Invalidated struct {
	// SandboxID is "" for all.
	SandboxID   string `json:"sandbox_id"`
	Invalidated bool   `json:"invalidated"`
}

func (a *Admin) invalidate(r *http.Request) (any, error) {
	id, err := sandboxIn(r.PathValue("sandbox"))
	if err != nil {
		return nil, err
	}
	return a.forget(id)
}

func (a *Admin) invalidateAll(*http.Request) (any, error) { return a.forget("") }

func (a *Admin) forget(sandboxID string) (any, error) {
	live, release, err := a.live()
	if err != nil {
		return nil, err
	}
	defer release()
	live.routes.cache.Invalidate(sandboxID)
	return Invalidated{sandboxID, true}, nil
}

func (a *Admin) watch(w http.ResponseWriter, r *http.Request) error {
	live, release, err := a.live()
	if err != nil {
		return err
	}
	defer release()
	changes := newChangeQueue()
	defer live.routes.cache.OnChange(changes.add)()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()
	changes.tell(ctx, w)
	return nil
}
