package rolling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

const (
	apiKey        = "e2b_0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
	redisPassword = "the-password-of-the-gateways"
	// redisUser is the line of the README.
	redisUser = "gateway on >%s resetchannels ~alive:* ~e2b-gateway:key:* &__redis__:invalidate &e2b-gateway:limits:* -@all " +
		"+get +hgetall +ping +subscribe +publish +client|id +client|tracking +multi +exec +unwatch (~timeout:* -@all +get +set +watch)"
)

// stage is ROCK and its Redis, and two gateways behind a load balancer.
type stage struct {
	testing.TB
	registry  *redistest.Server
	secrets   string // the directory of the gateways' secrets
	caddyfile string
	gateways  []*harness.Process
	balancer  *haproxy
	sandboxes []sandbox
}

// sandbox is one that the gateways have made.
type sandbox struct {
	ID    string `json:"sandboxID"`
	Token string `json:"envdAccessToken"`
}

func newStage(t testing.TB, sandboxes int) *stage {
	t.Helper()
	harness.AllowFiles(t, 1<<16)
	s := &stage{TB: t, secrets: t.TempDir()}
	s.caddyfile = s.shippedCaddyfile()
	for range 2 {
		s.gateways = append(s.gateways, harness.Binary(t, s.caddyfile))
	}
	s.balancer = startHAProxy(t, s.gateways)
	client := s.balancer.client(t, 1)
	for range sandboxes {
		s.sandboxes = append(s.sandboxes, s.create(client))
	}
	return s
}

// shippedCaddyfile is that of deploy/haproxy with the addresses of this stage, its secrets, and periods that a test can wait for.
func (s *stage) shippedCaddyfile() string {
	s.Helper()
	s.registry = redistest.Start(s, redistest.Options{Users: []string{fmt.Sprintf(redisUser, redisPassword)}})
	records := redis.NewClient(&redis.Options{Addr: s.registry.Addr})
	s.Cleanup(func() { records.Close() })
	cluster, err := rock.New(rock.Options{TempDir: s.TempDir(), Records: rock.RedisStrings{Client: records}, Envd: envd.In[*rock.Sandbox]})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { cluster.Close() })
	address := map[rock.Role]string{}
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		server, err := cluster.Serve(role, "")
		if err != nil {
			s.Fatal(err)
		}
		address[role] = server.URL()
	}
	s.secret("redis-password", redisPassword)
	s.secret("token-2026-12", strings.Repeat("k", 32))
	s.secret("keys.json", keys(apiKey))
	return replaced(s, "Caddyfile", map[string]string{
		"/etc/e2b-gateway/secrets": s.secrets,
		"redis:6379":               s.registry.Addr,
		"http://rock-admin:8080":   address[rock.Admin],
		"http://rock-proxy:8081":   address[rock.Proxy],
		"shutdown_delay 10s":       "shutdown_delay " + shutdownDelay.String(),
		"grace_period 2m":          "grace_period " + gracePeriod.String(),
	})
}

// secret writes a secret of the gateways, whole or not at all.
func (s *stage) secret(name, text string) {
	s.Helper()
	file := filepath.Join(s.secrets, name)
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		s.Fatal(err)
	}
}

// keys is a file of keys, all of alice.
func keys(all ...string) string {
	var records []string
	for _, key := range all {
		records = append(records, fmt.Sprintf(`{"digest": "%s", "subject": "alice"}`, auth.DigestOf(key)))
	}
	return `{"keys": [` + strings.Join(records, ", ") + `]}`
}

// replaced is a file of deploy/haproxy in which other words stand. Each must be there.
func replaced(t testing.TB, name string, words map[string]string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../deploy/haproxy", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for word, other := range words {
		if !strings.Contains(text, word) {
			t.Fatalf("%s has no %q", name, word)
		}
		text = strings.ReplaceAll(text, word, other)
	}
	return text
}

// create makes a sandbox, as an SDK does.
func (s *stage) create(client *http.Client) sandbox {
	s.Helper()
	var made sandbox
	if err := s.call(client, request{method: http.MethodPost, path: "/sandboxes", body: `{"templateID": "python:3.11", "timeout": 3600}`, key: true, status: http.StatusCreated}, &made); err != nil {
		s.Fatal(err)
	}
	return made
}

// request is a call and the status that it must be answered with.
type request struct {
	method, path, body string
	key                bool     // it is for the control plane
	other              string   // the API key, if not apiKey
	sandbox            *sandbox // it is for the data plane
	status             int
}

// call makes a call once: the standard client does not know how to repeat a body of this kind.
func (s *stage) call(client *http.Client, c request, answer any) error {
	var body io.Reader
	if c.body != "" {
		body = struct{ io.Reader }{strings.NewReader(c.body)}
	}
	r, err := http.NewRequestWithContext(s.Context(), c.method, s.balancer.URL+c.path, body)
	if err != nil {
		return err
	}
	r.ContentLength = int64(len(c.body))
	switch {
	case strings.HasPrefix(c.body, "{"):
		r.Header.Set("Content-Type", "application/json")
	case c.body != "":
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	if c.key {
		r.Header.Set("X-API-Key", cmp.Or(c.other, apiKey))
	}
	if c.sandbox != nil {
		address(r.Header, *c.sandbox)
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s %s: the answer is cut: %w", c.method, c.path, err)
	}
	if resp.StatusCode != c.status {
		return fmt.Errorf("%s %s: %d %s", c.method, c.path, resp.StatusCode, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// address sends a request to envd of a sandbox, as SDKs do.
func address(h http.Header, s sandbox) {
	h.Set("E2b-Sandbox-Id", s.ID)
	h.Set("E2b-Sandbox-Port", "49983")
	h.Set("X-Access-Token", s.Token)
}
