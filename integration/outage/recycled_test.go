package outage

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/redistest"
)

// Field report F06: another writer ends a sandbox and gives its address to the next one.
// The gateway dials, so nobody but it could keep the calls of the first from the second.
func TestARecycledAddressIsNotTheFirstSandboxsAnyMore(t *testing.T) {
	var calls atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/sandboxes/") { // the admin role is asked whether it was stopped
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":404,"message":"not found"}`))
			return
		}
		calls.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer upstream.Close()
	s := &scene{redis: redistest.Start(t, redistest.Options{})}
	s.Gateway = inprocess.Start(t, fmt.Sprintf(`{
	e2b {
		keys off
		registry redis {
			address %s
			watch tracking
		}
		cache {
			ttl 1h
		}
		cluster test {
			admin %s
			proxy %[2]s
			mode direct
			allow 127.0.0.1/32
		}
	}
}
:80 {
	e2b
}
`, s.redis.Addr, upstream.URL))
	s.client = s.Client()
	record := func(id string) string {
		return fmt.Sprintf(`{"sandbox_id":%q,"state":"running","host_ip":"127.0.0.1","port_mapping":{"49983":%s}}`, id, upstream.URL[strings.LastIndexByte(upstream.URL, ':')+1:])
	}
	status := func(id string) int {
		status, _ := s.health(t.Context(), id)
		return status
	}
	s.redis.Do("SET", "alive:first", record("first"))
	if got := status("first"); got != http.StatusNoContent {
		t.Fatal(got)
	}
	s.redis.Do("DEL", "alive:first")
	s.redis.Do("SET", "alive:second", record("second"))
	took := within(t, 2*time.Second, "the first is gone", func() bool { return status("first") == http.StatusBadGateway })
	t.Logf("gone after %v", took)
	before := calls.Load()
	for range 50 {
		if got := status("first"); got != http.StatusBadGateway {
			t.Errorf("the first answers %d", got)
		}
	}
	if calls.Load() != before {
		t.Error("calls of the first have reached the second")
	}
	if got := status("second"); got != http.StatusNoContent || calls.Load() != before+1 {
		t.Errorf("the second answers %d", got)
	}
}
