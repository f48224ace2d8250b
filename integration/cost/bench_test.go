package cost

import (
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// BenchmarkUnary has a call through the gateway and the floor under it, for
// profiles: -run '^$' -bench Unary/gateway -cpuprofile …
func BenchmarkUnary(b *testing.B) {
	s := setUp(b, "")
	g := inprocess.Start(b, s.caddyfile)
	token := create(b, g.Client(), g.URL)
	for _, side := range []struct{ name, url string }{{"floor", g.URLOf(":81")}, {"gateway", g.URL}} {
		b.Run(side.name, func(b *testing.B) {
			c, r := dial(b, side.url), request(token)
			c.do(b, r, 100)
			b.ReportAllocs()
			b.ResetTimer()
			c.do(b, r, b.N)
		})
	}
}
