package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/listing"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// This file answers Sandbox.list: E2B's list in pages, GET /v2/sandboxes, and the older one without, GET /sandboxes. ROCK's
// own lists need a metadata filter or speak another language, know neither owners nor pages that stay put, and fail for one
// record that they cannot show; so the gateway asks for what there is, picks, sorts and pages itself.

const (
	listCall = "Sandbox.list"
	// olderList is the path of the list without pages.
	olderList = "/sandboxes"
)

// lists is what all calls of Sandbox.list share.
type lists struct {
	walks      chan struct{}      // a place for each that may look through everything at a time
	censuses   map[string]*census // by cluster
	counting   flights            // a census each, by cluster
	origins    origins
	complaints complaints
}

func newLists(clusters []*routing.Cluster) *lists {
	l := &lists{walks: make(chan struct{}, walksAtOnce), censuses: map[string]*census{}}
	for _, c := range clusters {
		l.censuses[c.Name] = &census{}
	}
	return l
}

// list is one call of Sandbox.list.
type list struct {
	g     *Gateway
	who   *caller
	query listing.Query
	after listing.Position
	// several: it goes over more than one cluster.
	several bool

	mu      sync.Mutex
	skipped int   // records that could not be shown
	problem error // what was wrong with one of them
}

// pausedUnlisted is what who asks for paused sandboxes only is told: an empty list would say that there are none.
var pausedUnlisted = cause.Failure{
	Cause:   cause.NotOffered,
	Message: "Listing paused sandboxes is not offered by this deployment; ask for one by its id",
}

// serveList answers with the caller's running sandboxes.
func (g *Gateway) serveList(w http.ResponseWriter, r *http.Request, who *caller, out Outcome) Outcome {
	query, err := listing.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return refuse(w, r, out, cause.Failure{Cause: cause.BadRequest, Message: err.Error()})
	}
	if r.URL.Path == olderList {
		query.Limit, query.Token = 0, ""
	}
	if !query.Running {
		return refuse(w, r, out, pausedUnlisted)
	}
	named, f := g.namedCluster(r)
	if f.Cause != cause.OK {
		return refuse(w, r, out, f)
	}
	clusters, scope := g.opt.Clusters, []string{who.name(), ""}
	if named != nil {
		clusters, scope[1] = []*routing.Cluster{named}, named.Name
	}
	l := &list{g: g, who: who, query: query, several: len(clusters) > 1}
	if l.after, err = query.Position(scope...); err != nil {
		return refuse(w, r, out, cause.Failure{Cause: cause.BadRequest, Message: err.Error()})
	}

	ctx, cancel := context.WithTimeout(r.Context(), g.opt.ControlTimeout)
	defer cancel()
	call := &running{cancel: cancelFunc(func(error) { cancel() })}
	g.calls.add(call)
	defer g.calls.remove(call)
	items, at, err := l.gather(ctx, clusters)
	if err != nil {
		out.Cluster, out.Err = at.Name, err
		return refuse(w, r, out, l.failure(r.Context(), at, err))
	}
	out.Err = l.complaint()
	if len(clusters) == 1 {
		out.Cluster = clusters[0].Name
	}
	if limit := query.Limit; limit > 0 && len(items) > limit {
		items = items[:limit]
		w.Header().Set("X-Next-Token", query.Next(listing.After(&items[limit-1]), scope...))
	}
	return answerList(w, who, items, out)
}

func answerList(w http.ResponseWriter, who *caller, items []listing.Item, out Outcome) Outcome {
	if items == nil {
		items = []listing.Item{} // and not null
	}
	body, err := json.Marshal(items)
	if err != nil {
		out.Err = err // cannot be: all of it was read from JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	who.keepUncached(w.Header())
	if _, err := w.Write(body); err != nil {
		out.Err, out.End = err, cause.ClientGone
	}
	return out
}

// gather asks all clusters at the same time. One that cannot be asked fails the list, and is returned: without its
// sandboxes it would say that they are gone.
func (l *list) gather(ctx context.Context, clusters []*routing.Cluster) ([]listing.Item, *routing.Cluster, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg     sync.WaitGroup
		once   sync.Once
		failed error
		at     *routing.Cluster
	)
	found := make([][]listing.Item, len(clusters))
	for i, c := range clusters {
		wg.Go(func() {
			items, err := l.of(ctx, c)
			if err != nil {
				once.Do(func() { failed, at = err, c })
				cancel() // of no use without this one
				return
			}
			found[i] = items
		})
	}
	wg.Wait()
	if failed != nil {
		return nil, at, failed
	}
	return l.inOrder(slices.Concat(found...)), nil, nil
}

// inOrder sorts items and keeps one of each.
func (l *list) inOrder(items []listing.Item) []listing.Item {
	slices.SortFunc(items, l.query.Order)
	seen := make(map[string]bool, len(items))
	return slices.DeleteFunc(items, func(i listing.Item) bool {
		twice := seen[i.SandboxID]
		seen[i.SandboxID] = true
		return twice
	})
}

// of is what one cluster has for the list: by ROCK's own filter for a caller who has a name there, and by a look through
// all that there is for everybody else, and where the filter fails.
func (l *list) of(ctx context.Context, cluster *routing.Cluster) ([]listing.Item, error) {
	if l.who != nil && !l.who.admin() && !l.who.access.AllowUnowned {
		items, err := l.noted(ctx, cluster)
		if err == nil {
			more, err := l.unnoted(ctx, cluster)
			return append(items, more...), err
		}
		if !rockFailed(err) {
			return nil, err
		}
	}
	return l.everything(ctx, cluster)
}

// noted are the sandboxes that carry the caller's name. ROCK finds them in its database. One record that it cannot show
// fails all of it.
func (l *list) noted(ctx context.Context, cluster *routing.Cluster) ([]listing.Item, error) {
	filter := maps.Clone(l.query.Metadata)
	if filter == nil {
		filter = map[string]string{}
	}
	filter[routing.MetadataSubject] = l.who.key.Subject
	raw, err := RoleClient{cluster.Proxy, l.g.opt.Upstream}.listE2B(ctx, listing.RockFilter(filter))
	if err != nil {
		return nil, err
	}
	items := make([]listing.Item, 0, len(raw))
	for _, r := range raw {
		item, err := l.shown(listing.FromE2B(r))
		switch {
		case errors.Is(err, listing.ErrNotRunning):
		case err != nil:
			l.skip(cluster, item.SandboxID, err)
		case noteOf(&item).Subject == l.who.key.Subject && l.wants(&item):
			items = append(items, item)
		}
	}
	return items, nil
}

// everything is found by a look through ROCK's own list.
func (l *list) everything(ctx context.Context, cluster *routing.Cluster) ([]listing.Item, error) {
	var kept []listing.Item
	owners := l.newOwners(cluster)
	err := l.walk(ctx, cluster, func(items []listing.Item) error {
		items = slices.DeleteFunc(items, func(i listing.Item) bool { return !l.wants(&i) })
		mine, err := owners.sift(ctx, items)
		kept = append(kept, mine...)
		if n := l.query.Limit; n > 0 && len(kept) > 4*(n+1) {
			// No page has more, so no more is held.
			kept = l.inOrder(kept)
			kept = slices.Clip(kept[:min(n+1, len(kept))])
		}
		return err
	})
	return kept, err
}

// shown is an item with its address, where addresses are shown.
func (l *list) shown(item listing.Item, err error) (listing.Item, error) {
	if err == nil && l.g.opt.ShowAddress {
		item.ShowAddress()
	}
	return item, err
}

// wants reports an item that the query asks for and that the pages before this have not shown.
func (l *list) wants(item *listing.Item) bool {
	return l.query.Behind(l.after, item) && l.query.Matches(item)
}

// skip notes a record that cannot be shown. What ROCK says of one may quote what is in it, which is not for the log.
func (l *list) skip(cluster *routing.Cluster, id string, err error) {
	if failed := (*rockError)(nil); errors.As(err, &failed) {
		err = &rockError{Status: failed.Status, Code: failed.Code, Text: "see its own log"}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skipped++
	l.problem = fmt.Errorf("cluster %s: %q: %w", cluster.Name, id, err)
}

// complaintInterval is how often, at most, the log tells of records that lists leave out.
const complaintInterval = time.Minute

// complaint is what the log is to say of records that were left out, nil if that was said a moment ago.
func (l *list) complaint() error {
	if l.skipped == 0 || !l.g.lists.complaints.due(time.Now()) {
		return nil
	}
	return fmt.Errorf("%d records of ROCK cannot be listed, such as %w", l.skipped, l.problem)
}

// errRegistry is wrapped by errors of a list for which the registry had to be asked.
var errRegistry = errors.New("the registry could not say whose a sandbox is")

// failure is what the client of a list is told. Nothing was done whatever happened, so a cluster that is out is a 503.
func (l *list) failure(client context.Context, at *routing.Cluster, err error) cause.Failure {
	var dial *upstream.DialError
	switch {
	case client.Err() != nil:
		return cause.Failure{Cause: cause.ClientGone}
	case errors.Is(err, errRegistry):
		return cause.Failure{Cause: cause.RegistryUnavailable, Message: "The gateway cannot find out whose the sandboxes are at the moment; nothing was done, try again"}
	case errors.Is(err, errKeys):
		return cause.Failure{Cause: cause.KeysUnavailable}
	case errors.Is(err, errNotServed):
		return cause.Failure{Cause: cause.NotOffered, Message: listCall + " is not offered by this deployment"}
	case rockFailed(err):
		return cause.Failure{Cause: cause.UpstreamInvalid, Message: "The service could not list its sandboxes"}
	case l.several:
		return cause.Failure{Cause: cause.ClusterUnreachable, Message: fmt.Sprintf(
			"The cluster %s cannot be reached, and a list without its sandboxes would not be whole; the header X-Cluster asks for another cluster's", at.Name)}
	case errors.As(err, &dial):
		return cause.Failure{Cause: cause.ClusterUnreachable}
	default:
		return cause.Failure{Cause: cause.ClusterUnreachable, Message: "The service did not list its sandboxes in time; nothing was done, try again"}
	}
}
