package handlers

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

const secluded = "secluded" // alice's, and its creator wants a token asked for

// town is a gateway whose sandboxes have hosts below box.test. All of them are one
// server, the app; got is what reached it last.
type town struct{ *guarded }

func newTown(t *testing.T, change ...func(*guarded, *Options)) town {
	t.Helper()
	g := newGuarded(t, append([]func(*guarded, *Options){func(g *guarded, o *Options) {
		o.Domains = []routing.Domain{{Name: "box.test"}}
		o.Clusters[0].Mode = routing.ModeDirect
		g.access.PublicTraffic = true
	}}, change...)...)
	at, err := netip.ParseAddrPort(g.cluster.Proxy.Candidates("")[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	g.cluster.AllowedHosts = []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)}
	for id, owner := range map[string]string{mine: "alice", hers: "bob", stray: "", secluded: "alice"} {
		route := owned(owner)
		route.Host, route.Private = at.Addr(), id == secluded
		route.Ports = routing.PortsOf(map[uint16]uint16{routing.EnvdPort: at.Port(), 3000: at.Port()})
		g.estate.put(id, route)
	}
	return town{g}
}

// app is what the sandboxes answer with.
func (g town) app(answer http.HandlerFunc) {
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		g.got = r.Clone(context.Background())
		answer(w, r)
	}
}

// visit sends a request to a host, as a browser or any other client does.
func (g town) visit(t *testing.T, method, host, target string, headers ...string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, g.URL+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	resp.Header.Del("Date")
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

// traffic is alice's traffic token for a sandbox.
func (g town) traffic(id string) string {
	return g.access.Tokens.Mint(auth.TrafficToken, id, "alice")
}

func shown(r reply) string {
	return strings.Join([]string{http.StatusText(r.status), r.header.Get("Content-Type"), r.body}, " | ")
}
