// Package outage takes things away from a running gateway, or breaks them, and
// watches what its clients are told: the whole gateway, a real Redis, the ROCK
// double.
package outage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// scene is a gateway with everything behind it.
type scene struct {
	*harness.Gateway
	redis  *redistest.Server
	rock   *rock.Cluster
	client *http.Client

	later atomic.Int64 // how far the double's clock is ahead, a time.Duration
}

// now is the double's clock.
func (s *scene) now() time.Time { return time.Now().Add(time.Duration(s.later.Load())) }

// options are lines of the Caddyfile that a test cares about, and a URL in
// place of the double's proxy role.
type options struct{ cache, redis, proxy string }

func open(t *testing.T, o options) *scene {
	t.Helper()
	s := &scene{redis: redistest.Start(t, redistest.Options{})}
	records := goredis.NewClient(&goredis.Options{Addr: s.redis.Addr})
	t.Cleanup(func() { records.Close() })
	var err error
	if s.rock, err = rock.New(rock.Options{TempDir: t.TempDir(), Pause: true, Now: s.now, Records: rock.RedisStrings{Client: records}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.rock.Close() })
	admin, err := s.rock.Serve(rock.Admin, "")
	if err != nil {
		t.Fatal(err)
	}
	if o.proxy == "" {
		proxy, err := s.rock.Serve(rock.Proxy, "")
		if err != nil {
			t.Fatal(err)
		}
		o.proxy = proxy.URL()
	}
	s.Gateway = inprocess.Start(t, fmt.Sprintf(`{
	e2b {
		keys off
		registry redis {
			address %s
			%s
		}
		cache {
			%s
		}
		cluster test {
			admin %s
			proxy %s
		}
	}
}
:80 {
	e2b
}
`, s.redis.Addr, o.redis, o.cache, admin.URL(), o.proxy))
	s.client = s.Client()
	return s
}

// create makes a sandbox with a given id.
func (s *scene) create(t *testing.T, id string) {
	t.Helper()
	body := fmt.Sprintf(`{"templateID":"base","metadata":{"ap-sandbox-id":%q},"timeout":300}`, id)
	if status, answer := s.do(t.Context(), "POST", "/sandboxes", body, ""); status != http.StatusCreated {
		t.Fatalf("create: %d %s", status, answer)
	}
}

// do sends a request; with a sandbox id it is one of the data plane. The
// status is 0 when there was no answer.
func (s *scene) do(ctx context.Context, method, path, body, sandbox string) (int, string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	if sandbox != "" {
		r.Header.Set("E2b-Sandbox-Id", sandbox)
		r.Header.Set("E2b-Sandbox-Port", "49983")
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

func (s *scene) health(ctx context.Context, sandbox string) (int, string) {
	return s.do(ctx, "GET", "/health", "", sandbox)
}

// within polls until check is satisfied: a foreign process decides when.
func within(t *testing.T, limit time.Duration, what string, check func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		if time.Since(begun) > limit {
			t.Fatalf("%s: not within %v", what, limit)
		}
		<-tick.C
	}
	return time.Since(begun)
}

// Contract checklist 57, field reports F12 and G03.
func TestRedisStopsUnderLoad(t *testing.T) {
	for name, outage := range map[string]struct{ begin, end func(*redistest.Server) }{
		"it hangs":   {(*redistest.Server).Pause, (*redistest.Server).Resume},
		"it is gone": {(*redistest.Server).Stop, (*redistest.Server).Start},
	} {
		t.Run(name, func(t *testing.T) {
			// A short TTL: every route expires several times in the outage.
			s := open(t, options{cache: "ttl 200ms"})
			const known = 20
			documents := map[string]string{}
			for i := range known {
				id := fmt.Sprint("known-", i)
				s.create(t, id)
				documents["alive:"+id] = s.redis.Do("GET", "alive:"+id).(string)
			}
			// What Redis tells of the records may still be on its way, and would make
			// the gateway forget the last of them when nobody can be asked any more.
			// Then it is right to know nothing; here it is to know them all.
			time.Sleep(time.Second)
			for id := range documents {
				id = strings.TrimPrefix(id, "alive:")
				if status, body := s.health(t.Context(), id); status != http.StatusNoContent {
					t.Fatalf("before: %d %s", status, body)
				}
			}
			outage.begin(s.redis)

			ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
			defer stop()
			var load sync.WaitGroup
			for worker := range 8 {
				load.Go(func() {
					for n := worker; ctx.Err() == nil; n++ {
						id := fmt.Sprint("known-", n%known)
						if status, body := s.health(t.Context(), id); status != http.StatusNoContent {
							t.Errorf("health of %s: %d %s", id, status, body)
							return
						}
						if status, body := s.do(t.Context(), "POST", "/filesystem.Filesystem/Stat", `{"path":"/"}`, id); status != http.StatusOK {
							t.Errorf("stat in %s: %d %s", id, status, body)
							return
						}
						unknown := fmt.Sprint("unknown-", worker, "-", n)
						if status, body := s.health(t.Context(), unknown); status != http.StatusServiceUnavailable || codeOf(body) != 503 {
							t.Errorf("health of an unknown sandbox: %d %s", status, body)
							return
						}
					}
				})
			}
			load.Wait()

			outage.end(s.redis)
			for key, document := range documents {
				s.redis.Do("SET", key, document)
			}
			took := within(t, 2*time.Second, "back to normal", func() bool {
				gone, _ := s.health(t.Context(), "never-created")
				here, _ := s.health(t.Context(), "known-0")
				return gone == http.StatusBadGateway && here == http.StatusNoContent
			})
			t.Logf("back to normal after %v", took)
		})
	}
}

func codeOf(body string) int {
	var e struct{ Code int }
	_ = json.Unmarshal([]byte(body), &e)
	return e.Code
}

// However many ask at once, each sandbox is looked up once.
func TestFiveThousandFirstRequestsCostOneLookupEach(t *testing.T) {
	const sandboxes = 5000
	// What runs behind is not the point: a proxy role that finds everything.
	everything := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	defer everything.Close()
	// Other tests may keep the machine so busy that 5,000 lookups take longer
	// than the second that they have by default, and that who waits for a place
	// among them does so for longer than it may and is told to try again. It is
	// their number that counts here. Who is refused earlier is refused wrongly.
	const queueTimeout = 5 * time.Second
	s := open(t, options{cache: "ttl 10m\n lookup_timeout 30s", redis: "timeout 30s", proxy: everything.URL})
	s.create(t, "pattern")
	document := s.redis.Do("GET", "alive:pattern").(string)
	for i := range sandboxes {
		id := fmt.Sprint("many-", i)
		s.redis.Do("SET", "alive:"+id, strings.ReplaceAll(document, "pattern", id))
	}
	for _, tc := range []struct {
		name    string
		id      func(int) string
		lookups int
	}{
		{"5,000 sandboxes", func(i int) string { return fmt.Sprint("many-", i) }, sandboxes},
		{"the same again, from memory", func(i int) string { return fmt.Sprint("many-", i) }, 0},
		{"one sandbox", func(int) string { return "pattern" }, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, began := s.redis.Calls("get"), time.Now()
			begin := make(chan struct{})
			sockets := make(chan struct{}, 1000)
			var wg sync.WaitGroup
			for i := range sandboxes {
				wg.Go(func() {
					<-begin
					sockets <- struct{}{}
					defer func() { <-sockets }()
					asked := time.Now()
					status, body := s.health(t.Context(), tc.id(i))
					for status == http.StatusServiceUnavailable && time.Since(asked) >= queueTimeout && time.Since(began) < time.Minute {
						asked = time.Now()
						status, body = s.health(t.Context(), tc.id(i))
					}
					if status != http.StatusNoContent {
						t.Errorf("%s: %d %s", tc.id(i), status, body)
					}
				})
			}
			close(begin)
			wg.Wait()
			if n := s.redis.Calls("get") - before; n > tc.lookups {
				t.Errorf("%d lookups, want at most %d", n, tc.lookups)
			}
		})
	}
}
