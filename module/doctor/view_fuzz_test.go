package doctor

import (
	"context"
	"net"
	"testing"
	"time"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// Whatever is in a config, Caddy says what is wrong with it, and the doctor survives
// it. Nothing is asked here but the options.
func FuzzAnyConfigCanBeLookedAt(f *testing.F) {
	for _, seed := range []string{
		`null`, `[]`, `{"apps":{"http":{"servers":{"a":null}}}}`, `{"apps":{"http":{"servers":{"a":{"routes":[{}]}}}}}`,
		`{"admin":{"listen":":2019"},"logging":{"logs":{"a":null,"b":{"level":"DEBUG"}}},"apps":{"http":{"servers":{"a":{"listen":[":80"],` +
			`"routes":[{"match":[{"host":["a.b","*.b"]}],"handle":[{"handler":"subroute","routes":[{"group":"x","handle":[{"handler":"rewrite"}]},` +
			`{"group":"x","handle":[{"handler":"e2b","plane":"data"}]}]}]},{"handle":[{"handler":"reverse_proxy","transport":{"protocol":"e2b"}}]}],` +
			`"tls_connection_policies":[null,{"match":{"sni":["a.b"]},"certificate_selection":{"any_tag":["c"]}}]}}},` +
			`"tls":{"certificates":{"load_files":[{"certificate":"/nowhere","key":"/nowhere"}]},"automation":{"policies":[null,{"subjects":["*.b"],"on_demand":true}]}},` +
			`"e2b":{"keys":"{file./nowhere}"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		x := &examination{
			Deployment: Deployment{Config: config, App: &e2bcaddyfile.Config{Domains: []string{"b", "x.y:1"}}},
			Options:    Options{Timeout: time.Second, Resolver: net.DefaultResolver},
			view:       viewOf(config),
		}
		for _, check := range []func(*examination, context.Context){
			(*examination).servers, (*examination).handlersBefore, (*examination).logs, (*examination).process, (*examination).sites, (*examination).access,
		} {
			check(x, t.Context())
		}
		for name := range x.wanted() {
			if name == "" {
				t.Error("an empty name would be resolved")
			}
		}
		for host, s := range x.view.hosts() {
			x.view.secure(s, host)
			x.view.challenge(host)
		}
	})
}
