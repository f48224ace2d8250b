package handlers

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// A rehearsal is a gateway that decides as another one does, and does nothing.

// rehearse makes a gateway of the parts of g. What it would change is its own: the
// upstream sends nothing, the addresses that it calls unreachable are copies, no
// limit counts, no metric sees it, and it hears and tells of no sandbox's end.
func (g *Gateway) rehearse() *Gateway {
	opt := g.opt
	play := &rehearsal{}
	opt.Upstream = play
	opt.Limits = nil
	opt.Activity = -1
	opt.ReadyTimeout = -1
	opt.Silence = nil
	opt.Deaths = NewDeaths()
	opt.History = nil
	opt.Counts = nil
	opt.Clusters = nil
	for _, c := range g.opt.Clusters {
		same := *c
		same.Admin, same.Proxy = c.Admin.Copy(), c.Proxy.Copy()
		opt.Clusters = append(opt.Clusters, &same)
	}
	dry := New(opt)
	dry.rehearsal = play
	dry.floor = 1 // an operator may know how long a look takes
	if g.calls.closed.Load() {
		dry.calls.close()
	}
	return dry
}

// rehearsal is an Upstream that writes down what it is to send, and refuses to
// connect, so that every address comes to be tried.
type rehearsal struct {
	mu   sync.Mutex
	sent []*http.Request
	// unmapped: the way to a port is not known, and was not asked for.
	unmapped bool
}

// errRehearsed is why nothing is sent. It says nothing about the other side.
var errRehearsed = errors.New("this is a rehearsal")

// RoundTrip implements [Upstream].
func (p *rehearsal) RoundTrip(r *http.Request) (*http.Response, error) {
	note := &http.Request{Method: r.Method, URL: new(*r.URL), Header: maps.Clone(r.Header)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, note)
	return nil, &upstream.DialError{Err: errRehearsed}
}

// tries are the addresses of what was to be sent.
func (p *rehearsal) tries(g *Gateway, plane routing.Plane) (tries []Try) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.sent {
		try := Try{Method: r.Method, Headers: slices.Sorted(maps.Keys(r.Header))}
		if try.Target = r.URL.Opaque; try.Target == "" {
			try.Target = r.URL.EscapedPath()
		}
		if r.URL.RawQuery != "" {
			try.Target = auth.RedactURI(try.Target + "?" + r.URL.RawQuery)
		}
		try.Address, try.Port = upstream.Destination(r.URL.Host)
		try.Cluster, try.Role = g.roleAt(plane, try.Address)
		if try.Port != 0 {
			try.Role = "rocklet"
		}
		if len(tries) == 0 || !try.same(tries[len(tries)-1]) {
			tries = append(tries, try)
		}
	}
	return tries
}

func (t Try) same(other Try) bool {
	return t.Address == other.Address && t.Target == other.Target && t.Method == other.Method && t.Port == other.Port
}

// roleAt is whose address it is. One that is no role's is a sandbox's.
func (g *Gateway) roleAt(plane routing.Plane, address string) (cluster, role string) {
	has := func(b *routing.Balancer) bool {
		return slices.ContainsFunc(b.Endpoints(), func(e *routing.Endpoint) bool { return e.Address == address })
	}
	for _, c := range g.opt.Clusters {
		switch admin, proxy := has(c.Admin), has(c.Proxy); {
		case proxy && (plane == routing.DataPlane || !admin):
			return c.Name, "proxy"
		case admin:
			return c.Name, "admin"
		}
	}
	return "", "sandbox"
}

// lend gives a question's request a credential. It is good for this gateway alone,
// and as long as it lives, or else a token that the owner of the sandbox has, too.
func (g *Gateway) lend(r *http.Request, q Question) error {
	a := g.opt.Access
	if a == nil {
		return nil // everybody gets in
	}
	for _, name := range []string{auth.HeaderAPIKey, auth.HeaderAccessToken, auth.HeaderTrafficToken, auth.HeaderRockKey,
		auth.HeaderRockAuthorization, "Authorization"} {
		if len(r.Header[name]) > 0 {
			return ErrTwoCredentials
		}
	}
	host, _ := g.hosts.Read(r.Host) // what is wrong with it is told later
	op := operationOf(r, host, q.Planes)
	id := op.SandboxID
	if op.Plane == routing.DataPlane {
		target, err := g.targetOf(r, host)
		if err != nil {
			return nil // it will be told, whoever asks
		}
		id = target.SandboxID
	}
	subject := q.As
	if q.AsOwner {
		var err error
		if subject, err = g.ownerOf(r.Context(), id); err != nil {
			return err
		}
	}
	if op.Plane == routing.DataPlane && a.Tokens != nil {
		r.Header[auth.HeaderAccessToken] = []string{a.Tokens.Mint(auth.AccessToken, id, subject)}
		return nil
	}
	secret := auth.NewKey()
	lent := *a
	lent.Keys = lentKey{a.Keys, auth.Key{Digest: auth.DigestOf(secret), Subject: cmp.Or(subject, "nobody"), Scopes: auth.DefaultScopes}}
	g.opt.Access = &lent
	name := auth.HeaderAPIKey
	if op.Plane == routing.DataPlane {
		name = auth.HeaderAccessToken
	}
	r.Header[name] = []string{secret}
	return nil
}

// ownerOf is the subject whose sandbox it is, "" for nobody's known, or for one that
// nobody knows.
func (g *Gateway) ownerOf(ctx context.Context, sandboxID string) (string, error) {
	route, _, err := g.opt.Routes.Lookup(ctx, sandboxID)
	if err != nil {
		return "", nil // the request itself will be told why
	}
	return g.opt.Access.subjectOf(ctx, route.Owner)
}

// lentKey is a store with one key more.
type lentKey struct {
	auth.Store
	key auth.Key
}

// Lookup implements [auth.Store].
func (s lentKey) Lookup(ctx context.Context, digest auth.Digest) (*auth.Key, error) {
	if digest == s.key.Digest {
		return &s.key, nil
	}
	return s.Store.Lookup(ctx, digest)
}

// invalidate makes the cache ask again, unless nothing has happened.
func (g *Gateway) invalidate(sandboxID string) {
	if g.rehearsal == nil {
		g.opt.Routes.Invalidate(sandboxID)
	}
}
