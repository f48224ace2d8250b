package cost

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// process is the real binary with a sandbox behind it, and a connection to the
// gateway and to the floor.
type process struct {
	*harness.Process
	*scene
	floor, gateway *client
	request        []byte
}

func startProcess(t testing.TB, site string) *process {
	t.Helper()
	p := &process{scene: setUp(t, site)}
	p.Process = harness.Binary(t, p.caddyfile)
	p.request = request(create(t, p.Client(), p.URL))
	p.floor, p.gateway = dial(t, p.URLOf(":81")), dial(t, p.URL)
	for _, c := range []*client{p.floor, p.gateway} {
		c.do(t, p.request, 200) // whatever is made once is there then
	}
	return p
}

// allocated is how many pieces of memory the process has allocated since it started.
func (p *process) allocated(t testing.TB) int {
	t.Helper()
	resp, err := http.Get(p.AdminURL() + "/debug/vars")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var vars struct {
		MemStats struct{ Mallocs int } `json:"memstats"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&vars); err != nil {
		t.Fatal(err)
	}
	return vars.MemStats.Mallocs
}

// allocations is how many a request on the connection costs, to the nearest: what the
// process does beside is less than half of one for each. The least of several
// measurements counts.
func (p *process) allocations(t testing.TB, on *client) int {
	t.Helper()
	const measurements, requests = 5, 1000
	least := 1 << 30
	p.allocated(t) // the first look costs more
	for range measurements {
		first := p.allocated(t)
		before := p.allocated(t)
		on.do(t, p.request, requests)
		looking := before - first
		least = min(least, (p.allocated(t)-before-looking+requests/2)/requests)
	}
	return least
}

// redisCalls is how often the gateway has asked Redis for a record.
func (p *process) redisCalls() int {
	n := 0
	for _, command := range []string{"get", "mget", "json.get", "json.mget", "evalsha", "evalsha_ro", "eval", "eval_ro", "fcall", "hgetall", "exists", "ttl"} {
		n += p.redis.Calls(command)
	}
	return n
}
