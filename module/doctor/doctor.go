// Package doctor looks for what is wrong with a deployment before its users find
// it: with the config, and with what the config names: Redis, the roles of ROCK,
// the keys, DNS, certificates, clocks.
//
// It asks and changes nothing: no sandbox is touched, nothing is listened on, and
// of its questions none has an effect. It never says a secret.
//
// What it can find is one table, [Kinds]. What it finds is told with what was
// seen, why it matters and what to do about it.
package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// Deployment is what is examined.
type Deployment struct {
	// Config is Caddy's whole config in JSON, as it is loaded, with placeholders
	// in the place of secrets.
	Config json.RawMessage
	// Refused is why Caddy does not take the config, nil when it does.
	Refused error

	// App is the app e2b with its placeholders expanded, nil when that failed.
	// What follows is empty then.
	App *e2bcaddyfile.Config
	// Redis are the servers that the app reads.
	Redis []Redis
	// TLS is what https addresses of each cluster are verified with.
	TLS []*tls.Config
	// Keys is where API keys are looked up.
	Keys Keys
}

// Redis is one server and what the app does with it.
type Redis struct {
	// For says whose it is: "registry of cluster default".
	For string
	// Cluster is the index of the cluster whose records are there, -1 for none.
	Cluster int
	Config  redis.Config
	Needs   redis.Needs
}

// Keys is a store of API keys.
type Keys struct {
	// Store is its name: "off", "file", "static", "redis", "http".
	Store string
	// File is that of store "file".
	File string
	// Table are the keys of a store that can be read whole, and Listed says that
	// this one can.
	Table  auth.Table
	Listed bool
	// Err is why the store cannot be read.
	Err error
	// Ask is a store that is asked over the network, nil for others.
	Ask auth.Store
}

// Options are how it is examined.
type Options struct {
	// Timeout bounds the whole examination. Default: 10s.
	Timeout time.Duration
	// Resolver is asked for the names that clients use. Default: the system's.
	Resolver *net.Resolver
	// OpenFiles is how many files a process may have open, 0 when that is not
	// known.
	OpenFiles uint64
}

// Report is what was found.
type Report struct {
	// Findings are sorted: errors, warnings, notes.
	Findings []Finding `json:"findings"`
	// Unchecked is what could not be looked at.
	Unchecked []Unchecked `json:"unchecked"`
}

// Finding is one thing that is wrong.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	// Where names the part of the deployment.
	Where string `json:"where"`
	// Found is what was seen.
	Found string `json:"found"`
	// Why it matters, and what to Do about it.
	Why string `json:"why"`
	Do  string `json:"do"`
}

// Unchecked is a question without an answer.
type Unchecked struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Clean reports that there are no findings but notes.
func (r *Report) Clean() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity != Note })
}

// examination is one run.
type examination struct {
	Deployment
	Options
	view *view

	mu     sync.Mutex
	report Report
}

// checks run side by side. Each adds what it finds.
var checks = []func(*examination, context.Context){
	(*examination).servers,
	(*examination).handlersBefore,
	(*examination).logs,
	(*examination).process,
	(*examination).sites,
	(*examination).certificates,
	(*examination).clusters,
	(*examination).access,
	(*examination).roles,
	(*examination).redis,
	(*examination).names,
}

// Examine looks at everything. It returns within Options.Timeout, a little more
// when the system does not answer it.
func Examine(ctx context.Context, d Deployment, o Options) *Report {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	x := &examination{Deployment: d, Options: o, view: viewOf(d.Config)}
	x.report.Findings, x.report.Unchecked = []Finding{}, []Unchecked{}
	if d.Refused != nil {
		x.found(configRefused, "config", "Caddy does not take the config: %v", d.Refused)
	}
	if d.App == nil {
		x.App = new(e2bcaddyfile.Config)
		x.unchecked("the app e2b", "its options cannot be read, see "+configRefused.ID)
	}
	var running sync.WaitGroup
	for _, check := range checks {
		running.Go(func() { check(x, ctx) })
	}
	running.Wait()
	x.sort()
	return &x.report
}

func (x *examination) found(k *Kind, where, format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.report.Findings = append(x.report.Findings, Finding{
		ID: k.ID, Severity: k.Severity, Where: where, Found: fmt.Sprintf(format, args...), Why: k.Why, Do: k.Do,
	})
}

func (x *examination) unchecked(what, why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.report.Unchecked = append(x.report.Unchecked, Unchecked{what, why})
}

// sort makes two runs say the same in the same order.
func (x *examination) sort() {
	place := map[string]int{}
	for i, k := range Kinds {
		place[k.ID] = i
	}
	slices.SortFunc(x.report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(place[a.ID], place[b.ID]),
			cmp.Compare(a.Where, b.Where), cmp.Compare(a.Found, b.Found))
	})
	slices.SortFunc(x.report.Unchecked, func(a, b Unchecked) int { return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Why, b.Why)) })
}
