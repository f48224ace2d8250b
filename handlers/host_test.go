package handlers

import (
	"net/http/httptest"
	"testing"

	"github.com/caddy-e2b/gateway/routing"
)

// Field report D14.
func TestTheDomainOfARequestIsTheOneItCameBy(t *testing.T) {
	g := newRig(t, func(o *Options) {
		o.Domains = []routing.Domain{{Name: "one.test"}, {Name: "two.test", Port: ":8443"}}
	})
	for host, want := range map[string]string{"api.one.test": "one.test", "api.two.test:8443": "two.test:8443", "127.0.0.1:3002": "one.test"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		if got := g.gateway.domainFor(r); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
	if got := newRig(t).gateway.domainFor(httptest.NewRequest("GET", "/", nil)); got != "" {
		t.Errorf("without domains: %q", got)
	}
}
