package handlers

import (
	"net/netip"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// Contract checklist 12, 18, 19; field reports J01, M01, M07, M08.
func TestWhoSeesTheCredentialsOfACall(t *testing.T) {
	const user = "Basic dXNlcjo="
	for _, tc := range []struct {
		name          string
		access        string // "tokens", "passthrough", "off"
		mode          routing.Mode
		port          string
		token, signed bool
	}{
		{"keys off", "off", routing.ModeRock, "49983", true, true},
		{"ROCK", "tokens", routing.ModeRock, "49983", false, false},
		{"ROCK, API keys", "passthrough", routing.ModeRock, "49983", false, false},
		{"envd itself", "tokens", routing.ModeDirect, "49983", true, true},
		{"envd itself, API keys", "passthrough", routing.ModeDirect, "49983", false, false},
		{"another port", "tokens", routing.ModeDirect, "3000", false, true},
		{"another port, API keys", "passthrough", routing.ModeDirect, "3000", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGuarded(t, func(g *guarded, o *Options) {
				if tc.access == "off" {
					o.Access = nil
				}
				o.Clusters[0].Mode = tc.mode
			})
			token := g.token("alice", mine)
			if tc.access == "passthrough" {
				g.access.Tokens, token = nil, "e2b_a11ce"
			}
			if tc.mode == routing.ModeDirect {
				g.direct(t)
			}
			const plain, signed = "/files?path=%2Fa%20b&y=1+2", "/files?path=%2Fa%20b&signature=v1_a%2Bb&y=1+2&signature_expiration=9"
			headers := []string{"E2b-Sandbox-Id", mine, "E2b-Sandbox-Port", tc.port, "X-Access-Token", token,
				"Authorization", user, "E2b-Traffic-Access-Token", "secret"}
			if tc.access != "off" {
				headers = append(headers, "Connection", "X-Access-Token, Keep-Alive")
			}
			r := g.send(t, "GET", signed, "", "", headers...)
			if r.status != 200 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			want := plain
			if tc.signed {
				want = signed
			}
			if g.got.RequestURI != want {
				t.Errorf("%s, want %s", g.got.RequestURI, want)
			}
			if got := g.got.Header["X-Access-Token"]; (len(got) == 1) != tc.token || tc.token && got[0] != token {
				t.Errorf("X-Access-Token: %q", got)
			}
			if g.got.Header.Get("Authorization") != user || g.got.Header.Get(auth.HeaderTrafficToken) != "" {
				t.Errorf("%v", g.got.Header)
			}
		})
	}
}

// direct gives alice's sandbox the address of the proxy role's double.
func (g *guarded) direct(t *testing.T) {
	t.Helper()
	at, err := netip.ParseAddrPort(g.cluster.Proxy.Candidates("")[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	route := owned("alice")
	route.Host, route.Ports = at.Addr(), routing.PortsOf(map[uint16]uint16{routing.EnvdPort: at.Port(), 3000: at.Port()})
	g.estate.put(mine, route)
	g.cluster.AllowedHosts = []netip.Prefix{netip.PrefixFrom(at.Addr(), 32)}
}
