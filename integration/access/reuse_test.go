package access

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// keyring are all that alice had when the sandbox was hers, in use.
var keyring = []swing{
	{"GET", "/sandboxes/{id}", "", "", "control"},
	{"DELETE", "/sandboxes/{id}", "", "", "control"},
	{"POST", start, "application/connect+json", frame(0, echo), "token"},
	{"POST", stat, "application/json", `{"path":"/"}`, "token"},
	{"POST", "/files?path=%2Fhome%2Fuser%2Fa", "application/octet-stream", "alice was here", "token"},
	{"GET", "/files?path=%2Fhome%2Fuser%2Fa", "", "", "signed"},
	{"POST", "/files?path=%2Fhome%2Fuser%2Fa", "application/octet-stream", "alice was here", "signed"},
}

// reused is an id that was alice's and is bob's by now, absent one of that length
// that nobody ever had.
const reused, absent = "reused", "absent"

// shut checks that nothing of alice's opens bob's sandbox, and that bob's opens it.
func (s *scene) shut(t *testing.T, when string, alice, bob *tenant) {
	t.Helper()
	for _, sw := range keyring {
		status, head, body, _, err := s.call(alice, sw, reused, reused)
		_, _, never, _, _ := s.call(alice, sw, absent, absent)
		if told := strings.ReplaceAll(body, reused, absent); told != never || err != nil {
			t.Errorf("%s, %s: %d %s%q, of one that never was %q, %v", when, sw, status, head, told, never, err)
		}
	}
	read := swing{"GET", "/files?path=%2Fhome%2Fuser%2Fa", "", "", "token"}
	if status, _, body, _, err := s.call(bob, read, reused, reused); status != 200 || body != "bob's" || err != nil {
		t.Errorf("%s, bob himself: %d %q %v", when, status, body, err)
	}
}

// change lets bob have the id after alice, through a gateway.
func (s *scene) change(t *testing.T, through *scene, alice, bob *tenant) {
	t.Helper()
	write := swing{"POST", "/files?path=%2Fhome%2Fuser%2Fa", "application/octet-stream", "alice's", "token"}
	s.create(t, valid, reused)
	for range 2 { // s knows the route now
		if status, _, body, _, err := s.call(alice, write, reused, reused); status != 200 || err != nil {
			t.Fatalf("%d %s %v", status, body, err)
		}
	}
	if status, body := through.do(t, apiKeys[valid], "DELETE", "/sandboxes/"+reused, ""); status != 204 {
		t.Fatalf("%d %s", status, body)
	}
	through.create(t, foreign, reused)
	write.body = "bob's"
	if status, _, body, _, err := through.call(bob, write, reused, reused); status != 200 || err != nil {
		t.Fatalf("%d %s %v", status, body, err)
	}
}

// What alice kept of a sandbox opens nothing when its id is bob's.
func TestAnIDThatIsSomebodyElsesByNowIsShut(t *testing.T) {
	for _, m := range []mode{made, passthrough} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			s := openOnRedis(t, m)
			other := &scene{mode: m, keys: s.keys, redis: s.redis, roles: s.roles}
			other.Process = harness.Binary(t, other.caddyfile("gone", "old"))
			other.client = other.Client()
			alice, bob := &tenant{key: valid, subject: alice}, &tenant{key: foreign, subject: bob}

			s.change(t, s, alice, bob)
			s.shut(t, "from memory", alice, bob)
			s.Reload(s.caddyfile("gone", "old"))
			s.shut(t, "after a reload", alice, bob)

			if status, body := s.do(t, apiKeys[foreign], "DELETE", "/sandboxes/"+reused, ""); status != 204 {
				t.Fatalf("%d %s", status, body)
			}
			s.change(t, other, alice, bob)
			// Redis tells s, and that takes its moment.
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			read := swing{"GET", "/files?path=%2Fhome%2Fuser%2Fa", "", "", "token"}
			for begun := time.Now(); ; {
				status, _, body, _, err := s.call(alice, read, reused, reused)
				if status != 200 && err == nil {
					t.Logf("shut at the other gateway after %v", time.Since(begun))
					break
				}
				if ctx.Err() != nil {
					t.Fatalf("still open: %d %q %v", status, body, err)
				}
			}
			s.shut(t, "through another gateway", alice, bob)

			s.redis.Pause()
			defer s.redis.Resume()
			for _, sw := range []swing{keyring[0], keyring[2], keyring[5]} { // one a plane: each waits for Redis in vain
				if status, _, body, _, err := s.call(alice, sw, reused, reused); status/100 == 2 && sw.path != start || strings.Contains(body, `"event"`) || err != nil {
					t.Errorf("from a last known route, %s: %d %q %v", sw, status, body, err)
				}
			}
			if status, _, body, _, err := s.call(bob, read, reused, reused); status != 200 || body != "bob's" || err != nil {
				t.Errorf("from a last known route, bob himself: %d %q %v", status, body, err)
			}
		})
	}
}
