package cost

import (
	"strings"
	"testing"
)

// What a small call may cost above Caddy's respond, in allocations: with keys, tokens,
// a registry in Redis and metrics, and its sandbox remembered. Whoever makes it cheaper
// lowers the number.
const allowed = 21

// A cached call asks nobody, and costs what is written here.
func TestACachedCallCostsWhatIsWrittenHere(t *testing.T) {
	p := startProcess(t, "", "")
	before := p.redisCalls()
	floor, gateway := p.allocations(t, p.floor), p.allocations(t, p.gateway)
	if over := gateway - floor; over != allowed {
		t.Errorf("a call costs %d allocations, %d above respond, and not %d", gateway, over, allowed)
	}
	if after := p.redisCalls(); after != before {
		t.Errorf("%d calls to Redis became %d", before, after)
	}
}

// The first call to a sandbox asks Redis once.
func TestAColdCallAsksRedisOnce(t *testing.T) {
	p := startProcess(t, "", "")
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
