package handlers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"sync"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// This file decides in which cluster a new sandbox is made.

// headerCluster is how a client names a cluster. ROCK does not get it: what it notes as the cluster is what the key's
// record says.
const headerCluster = "X-Cluster"

// namedCluster is the cluster that the client asks for, nil if it names none.
func (g *Gateway) namedCluster(r *http.Request) (*routing.Cluster, cause.Failure) {
	values := r.Header[headerCluster]
	if len(values) == 0 {
		return nil, cause.Failure{}
	}
	if c := g.clusters[values[0]]; c != nil && len(values) == 1 {
		return c, cause.Failure{}
	}
	return nil, cause.Failure{Cause: cause.BadRequest, Message: headerCluster + " must name one cluster of this deployment"}
}

// place finds the clusters in which a create may be made, in the order in which they are to be tried: the next one when
// the one before could not be dialled, and nothing was sent. over must be called when ROCK has answered.
func (g *Gateway) place(ctx context.Context, r *http.Request, who *caller, body []byte) (_ []*routing.Cluster, over func(), _ cause.Failure, _ error) {
	over = func() {}
	var create struct {
		TemplateID string         `json:"templateID"`
		Metadata   map[string]any `json:"metadata"`
	}
	_ = json.Unmarshal(body, &create) // ROCK says what is wrong with it
	clusters, f := g.placesFor(r, who, create.TemplateID)
	id, _ := create.Metadata[chosenID].(string)
	if f.Cause != cause.OK || id == "" || len(g.opt.Clusters) == 1 {
		return clusters, over, f, nil
	}
	over, free := g.opt.Deaths.settling.begin(id, "")
	if !free {
		return nil, func() {}, idTaken, nil // ROCK would say so, in one cluster
	}
	route, err := g.opt.Routes.Fresh(ctx, id)
	switch {
	case errors.Is(err, routing.ErrGone), err == nil && route.State == routing.StateDeleted:
	case err != nil:
		over()
		f, err := notHere(ctx, id, err)
		return nil, func() {}, f, err
	case who != nil && g.clusters[who.key.Tenant.Cluster] != nil && route.Cluster != who.key.Tenant.Cluster:
		// Where the key may make nothing: the sandbox may be gone when the create comes there.
		over()
		return nil, func() {}, idTaken, nil
	case g.clusters[route.Cluster] != nil:
		// The id is taken. The cluster that has it says what there is to say.
		clusters = []*routing.Cluster{g.clusters[route.Cluster]}
	}
	return clusters, over, cause.Failure{}, nil
}

// placesFor goes by the caller's key, then by the cluster that the client names, then by the template, then by the
// clusters' weights. The first two leave no choice.
func (g *Gateway) placesFor(r *http.Request, who *caller, template string) ([]*routing.Cluster, cause.Failure) {
	named, f := g.namedCluster(r)
	if f.Cause != cause.OK {
		return nil, f
	}
	if who != nil {
		switch pinned := g.clusters[who.key.Tenant.Cluster]; {
		case pinned == nil:
		case named != nil && named != pinned:
			return nil, cause.Failure{Cause: cause.Forbidden, Message: fmt.Sprintf("The API key makes sandboxes in the cluster %s only", pinned.Name)}
		default:
			named = pinned
		}
	}
	if named != nil {
		return g.inService([]*routing.Cluster{named})
	}
	var fitting []*routing.Cluster
	for _, c := range g.opt.Clusters {
		if slices.ContainsFunc(c.Templates, func(pattern string) bool {
			fits, err := path.Match(pattern, template)
			return fits && err == nil
		}) {
			fitting = append(fitting, c)
		}
	}
	if fitting == nil {
		fitting = g.shares.next(g.opt.Drains.open(g.opt.Clusters))
	}
	fitting, f = g.inService(fitting)
	slices.SortStableFunc(fitting, func(a, b *routing.Cluster) int { return cmp.Compare(outage(a), outage(b)) })
	return fitting, f
}

// inService leaves out the clusters that are drained.
func (g *Gateway) inService(clusters []*routing.Cluster) ([]*routing.Cluster, cause.Failure) {
	if clusters = g.opt.Drains.open(clusters); len(clusters) == 0 {
		return nil, clusterDrained
	}
	return clusters, cause.Failure{}
}

// outage is 1 for a cluster whose admin role could not be dialled, and 0 for others.
func outage(c *routing.Cluster) int {
	if slices.ContainsFunc(c.Admin.Endpoints(), (*routing.Endpoint).Up) {
		return 0
	}
	return 1
}

// shares spreads new sandboxes over clusters by their weights, as evenly as can be (smooth weighted round robin): with 2
// and 1 the turns are a, b, a, and never a, a, b.
type shares struct {
	mu   sync.Mutex
	owed map[*routing.Cluster]int
}

// next is the cluster whose turn it is, and behind it the others that have a weight, the heaviest first. Without any
// weight it is the first cluster alone.
func (s *shares) next(clusters []*routing.Cluster) []*routing.Cluster {
	total := 0
	var weighted []*routing.Cluster
	for _, c := range clusters {
		if c.Weight > 0 {
			total += c.Weight
			weighted = append(weighted, c)
		}
	}
	if total == 0 {
		return slices.Clone(clusters[:min(1, len(clusters))])
	}
	slices.SortStableFunc(weighted, func(a, b *routing.Cluster) int { return cmp.Compare(b.Weight, a.Weight) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owed == nil {
		s.owed = map[*routing.Cluster]int{}
	}
	turn := 0
	for i, c := range weighted {
		s.owed[c] += c.Weight
		if s.owed[c] > s.owed[weighted[turn]] {
			turn = i
		}
	}
	first := weighted[turn]
	s.owed[first] -= total
	return slices.Insert(slices.Delete(weighted, turn, turn+1), 0, first)
}
