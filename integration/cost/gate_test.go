package cost

import (
	"strings"
	"testing"
)

// What a small call costs at most above Caddy's respond, in allocations: with keys, tokens, a
// registry in Redis and metrics, its sandbox remembered, and an access log or none.
// Whoever makes it cheaper lowers a number.
func TestACachedCallCostsNoMoreThanIsWrittenHere(t *testing.T) {
	// Pools lose what they have in each cycle of the collector, and each processor has its own.
	t.Setenv("GOGC", "off")
	t.Setenv("GOMAXPROCS", "1")
	for name, tc := range map[string]struct {
		site  string
		above int
	}{
		"no access log": {"", 19},
		"access log":    {"log", 41},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, tc.site)
			before := p.redisCalls()
			floor, gateway := p.allocations(t, p.floor), p.allocations(t, p.gateway)
			if above := gateway - floor; above > tc.above {
				t.Errorf("a call costs %d allocations, %d above respond: more than %d", gateway, above, tc.above)
			}
			if after := p.redisCalls(); after != before {
				t.Errorf("%d calls to Redis became %d", before, after)
			}
		})
	}
}

// The first call to a sandbox asks Redis once.
func TestAColdCallAsksRedisOnce(t *testing.T) {
	p := startProcess(t, "")
	p.Reload(strings.Replace(p.caddyfile, "ttl 1h", "ttl 2h", 1)) // which makes another cache
	cold := dial(t, p.URL)
	before := p.redisCalls()
	cold.do(t, p.request, 1)
	if n := p.redisCalls() - before; n != 1 {
		t.Errorf("%d calls to Redis", n)
	}
	cold.do(t, p.request, 100)
	if n := p.redisCalls() - before; n != 1 {
		t.Errorf("%d calls to Redis after 100 more", n)
	}
}
