package health

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// patience is how long a gateway may take to notice what has happened.
const patience = 30 * time.Second

// scene is a Redis and a ROCK, with or without a gateway in front.
type scene struct {
	*harness.Process
	redis        *redistest.Server
	rock         *rock.Cluster
	admin, proxy *rock.Server
}

func open(t *testing.T, redis redistest.Options) *scene {
	t.Helper()
	s := &scene{redis: redistest.Start(t, redis)}
	records := s.redis.Admin()
	t.Cleanup(func() { records.Close() })
	var err error
	if s.rock, err = rock.New(rock.Options{TempDir: t.TempDir(), Records: rock.RedisStrings{Client: records}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.rock.Close() })
	s.admin, s.proxy = s.serve(t, rock.Admin, ""), s.serve(t, rock.Proxy, "")
	return s
}

func (s *scene) serve(t *testing.T, role rock.Role, address string) *rock.Server {
	t.Helper()
	server, err := s.rock.Serve(role, address)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// start runs the gateway, with more global options and more of its registry.
func (s *scene) start(t *testing.T, global, registry string) {
	t.Helper()
	s.Process = harness.Binary(t, fmt.Sprintf(`{
	%s
	e2b {
		keys off
		registry redis {
			address %s
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
:9180 {
	e2b health
}
`, global, s.redis.Addr, registry, s.admin.URL(), s.proxy.URL()))
}

// get asks for one of the two answers, and returns the status and the JSON in one line.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// stand is what the gateway says of itself, such as "200 registry_unreachable(test)+", where
// + is for what is covered by remembered routes.
func (s *scene) stand(t *testing.T, query string) string {
	t.Helper()
	status, body := get(t, s.URLOf(":9180")+"/e2b/ready"+query)
	var answer struct {
		Ready    bool
		Degraded bool
		Reasons  []struct {
			Reason, Cluster string
			Covered         bool
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if answer.Ready != (status == 200) || answer.Degraded != (answer.Ready && len(answer.Reasons) > 0) {
		t.Errorf("%d %s", status, body)
	}
	for _, secret := range []string{s.redis.Addr, s.admin.Addr(), s.proxy.Addr(), "127.0.0.1", "opensesame"} {
		if strings.Contains(body, secret) {
			t.Errorf("the answer names %s: %s", secret, body)
		}
	}
	said := fmt.Sprint(status)
	for _, r := range answer.Reasons {
		said += fmt.Sprintf(" %s(%s)", r.Reason, r.Cluster)
		if r.Covered {
			said += "+"
		}
	}
	return said
}

// until waits until the gateway says something of itself.
func (s *scene) until(t *testing.T, query, want string) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		got := s.stand(t, query)
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("it says %s, and not %s", got, want)
		}
	}
}

// use creates a sandbox, and makes a call for it, so that its route is remembered.
func (s *scene) use(t *testing.T) {
	t.Helper()
	for _, call := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/sandboxes", `{"templateID":"base","metadata":{"ap-sandbox-id":"one"},"timeout":300}`, 201},
		{"GET", "/health", "", 204},
	} {
		r, err := http.NewRequestWithContext(t.Context(), call.method, s.URL+call.path, strings.NewReader(call.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "E2b-Sandbox-Id": {"one"}, "E2b-Sandbox-Port": {"49983"}}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != call.want {
			t.Errorf("%s %s: %d", call.method, call.path, resp.StatusCode)
		}
	}
}

const strict = "?strict=true"

func TestReadinessFollowsWhatDiesAndReturns(t *testing.T) {
	s := open(t, redistest.Options{})
	s.redis.Stop()
	s.start(t, "shutdown_delay 1m", "")
	s.until(t, "", "503 starting() registry_unreachable(test)")
	if status, body := get(t, s.URLOf(":9180")+"/e2b/live"); status != 200 || !strings.Contains(body, `"live": true`) {
		t.Errorf("the process that is not ready is not alive: %d %s", status, body)
	}
	s.redis.Start()
	s.until(t, "", "200")
	s.use(t)

	s.redis.Stop()
	s.until(t, "", "200 registry_unreachable(test)+")
	s.until(t, strict, "200 registry_unreachable(test)+")
	s.redis.Start()
	s.until(t, "", "200")

	s.redis.Pause() // it hangs
	s.until(t, "", "200 registry_unreachable(test)+")
	s.redis.Resume()
	s.until(t, "", "200")

	for role, server := range map[rock.Role]**rock.Server{rock.Admin: &s.admin, rock.Proxy: &s.proxy} {
		address, reason := (*server).Addr(), map[rock.Role]string{rock.Admin: "admin_unreachable(test)", rock.Proxy: "proxy_unreachable(test)"}[role]
		if err := (*server).Close(); err != nil {
			t.Fatal(err)
		}
		s.until(t, "", "200 "+reason)
		s.until(t, strict, "503 "+reason)
		*server = s.serve(t, role, address)
		s.until(t, strict, "200")
	}

	s.Signal(syscall.SIGTERM)
	s.until(t, "", "503 draining()")
	for _, base := range []string{s.URLOf(":9180"), s.AdminURL()} {
		if status, _ := get(t, base+"/e2b/live"); status != 200 {
			t.Errorf("a process that drains is not alive: %d", status)
		}
		if status, _ := get(t, base+"/e2b/ready"); status != 503 {
			t.Errorf("a process that drains is ready: %d", status)
		}
	}
}

// A gateway that Redis does not let in must not take the place of one that works, also when
// the two differ in nothing that shows before a lookup.
func TestAGatewayWithoutTheRightToReadIsNotReady(t *testing.T) {
	s := open(t, redistest.Options{Users: []string{"gateway on >opensesame ~alive:* &* +ping +subscribe +client"}})
	t.Setenv("REDIS_PASSWORD", "opensesame")
	s.start(t, "", "username gateway\npassword {env.REDIS_PASSWORD}")
	s.until(t, "", "503 starting() registry_unreachable(test)")
	s.redis.Do("ACL", "SETUSER", "gateway", "+get")
	s.until(t, "", "200")
	s.redis.Do("ACL", "SETUSER", "gateway", "-get")
	s.until(t, "", "200 registry_unreachable(test)")
}

func TestProbesGetNothingElse(t *testing.T) {
	s := open(t, redistest.Options{})
	s.start(t, "", "")
	s.until(t, "", "200")
	for _, tc := range []struct {
		method, url string
		want        int
	}{
		{"HEAD", s.URLOf(":9180") + "/e2b/ready", 200},
		{"POST", s.URLOf(":9180") + "/e2b/ready", 405},
		{"DELETE", s.URLOf(":9180") + "/e2b/live", 405},
		{"GET", s.URLOf(":9180") + "/e2b/status", 404},
		{"GET", s.URLOf(":9180") + "/sandboxes", 404},
		{"GET", s.URLOf(":9180") + "/", 404},
		{"GET", s.URL + "/e2b/ready", 404}, // clients'
		{"GET", s.AdminURL() + "/e2b/ready", 200},
		{"POST", s.AdminURL() + "/e2b/live", 405},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tc.method, tc.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tc.want {
			t.Errorf("%s %s: %d, want %d", tc.method, tc.url, resp.StatusCode, tc.want)
		}
	}
}
