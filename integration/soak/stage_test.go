package soak

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

const apiKey = "e2b_0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"

// stage is the gateway with all that it stands in front of.
type stage struct {
	testing.TB
	registry *redistest.Server
	rock     *rock.Cluster
	gateway  *harness.Process
	url      string    // the gateway's
	configs  [2]string // reloads take turns
	clients  [2]*http.Client
	tls      *tls.Config
	troubles troubles

	// changing is held by whoever creates or kills a sandbox. The double loses records that it cannot write, as ROCK does, and
	// then nobody could say what is true of the sandbox: so nobody changes one while Redis is away.
	changing sync.RWMutex

	slots []*slot
}

// slot is a place that a sandbox is in all the time, but not always the same one.
type slot struct {
	mu  sync.Mutex
	now sandbox
}

func (s *slot) sandbox() sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *slot) put(b sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = b
}

// sandbox is one that the gateway has made.
type sandbox struct {
	ID    string `json:"sandboxID"`
	Token string `json:"envdAccessToken"`
}

func newStage(t testing.TB, sandboxes int) *stage {
	t.Helper()
	harness.AllowFiles(t, 1<<14)
	// What Redis held is there again after a restart, as where ROCK is operated with care.
	s := &stage{TB: t, registry: redistest.Start(t, redistest.Options{Args: []string{"--appendonly", "yes"}})}
	records := redis.NewClient(&redis.Options{Addr: s.registry.Addr})
	t.Cleanup(func() { records.Close() })
	var err error
	s.rock, err = rock.New(rock.Options{
		TempDir: t.TempDir(), Records: rock.RedisStrings{Client: records}, Envd: envd.In[*rock.Sandbox], Rocklet: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.rock.Close() })
	address := map[rock.Role]string{}
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		server, err := s.rock.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		address[role] = server.URL()
	}
	s.configs = caddyfiles(t, s.registry.Addr, address[rock.Admin], address[rock.Proxy])
	s.gateway = harness.Binary(t, s.configs[0], harness.TLS2)
	s.url, s.tls = s.gateway.URL, s.gateway.TLS()
	for i := range s.clients {
		tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000, Protocols: new(http.Protocols), TLSClientConfig: s.tls.Clone()}
		tr.Protocols.SetHTTP1(i == 0)
		tr.Protocols.SetHTTP2(i == 1)
		t.Cleanup(tr.CloseIdleConnections)
		s.clients[i] = &http.Client{Transport: tr}
	}
	for range sandboxes {
		b, err := s.create()
		if err != nil {
			t.Fatal(err)
		}
		s.slots = append(s.slots, &slot{now: b})
	}
	return s
}

// caddyfiles are two configs that differ in what no call is to feel.
func caddyfiles(t testing.TB, registry, admin, proxy string) (both [2]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"keys.json": fmt.Sprintf(`{"keys": [{"digest": "%s", "subject": "alice"}]}`, auth.DigestOf(apiKey)),
		"token":     strings.Repeat("k", 32),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range both {
		both[i] = fmt.Sprintf(`{
	grace_period 30s
	log {
		exclude admin.api
	}
	servers {
		listener_wrappers {
			e2b
		}
	}
	e2b {
		registry redis {
			address %s
		}
		cluster soak {
			admin %s
			proxy %s
			allow 127.0.0.1/32
		}
		keys file %s
		tokens {
			key 2026-12 {file.%s}
		}
		cache {
			ttl %ds
		}
	}
}
:80 {
	e2b
}
`, registry, admin, proxy, filepath.Join(dir, "keys.json"), filepath.Join(dir, "token"), 10-i)
	}
	return both
}

// file is what a call reads, of each sandbox another.
const file = "/tmp/soak"

// contents are 64 KiB that say whose they are.
func (b sandbox) contents() string { return strings.Repeat(b.ID+"\n", 64<<10/(len(b.ID)+1)+1)[:64<<10] }

// create makes a sandbox, with a file and a server of WebSockets in it.
func (s *stage) create() (b sandbox, err error) {
	made := s.do(0, request{method: http.MethodPost, path: "/sandboxes", body: `{"templateID": "python:3.11", "timeout": 3600}`, key: true})
	if made.err != nil || made.status != http.StatusCreated {
		return b, fmt.Errorf("create: %w", failure(made))
	}
	if err := json.Unmarshal(made.body, &b); err != nil {
		return b, err
	}
	double := s.rock.Sandbox(b.ID)
	l, err := double.Listen(socketPort)
	if err != nil {
		return b, err
	}
	double.OnStop(func() { l.Close() })
	go serveSockets(l, b.ID)
	if put := s.do(1, request{method: http.MethodPost, path: "/files?username=root&path=" + file, body: b.contents(), sandbox: b}); put.status != http.StatusOK {
		return b, fmt.Errorf("upload to a new sandbox: %w", failure(put))
	}
	return b, nil
}

// kill ends a sandbox, as its user does.
func (s *stage) kill(b sandbox) answer {
	return s.do(0, request{method: http.MethodDelete, path: "/sandboxes/" + b.ID, key: true})
}

// request is a call: with key one for the control plane, with sandbox one for the data plane.
type request struct {
	method, path, body string
	key                bool
	sandbox            sandbox
}

// answer is what came of a call.
type answer struct {
	status int
	body   []byte
	err    error
}

func (a answer) String() string { return fmt.Sprintf("%d %.200q %v", a.status, a.body, a.err) }

// do makes a call once: the standard client does not know how to repeat a body of this kind.
func (s *stage) do(protocol int, c request) (a answer) {
	ctx, cancel := limited()
	defer cancel()
	var body io.Reader
	if c.body != "" {
		body = struct{ io.Reader }{strings.NewReader(c.body)}
	}
	r, err := http.NewRequestWithContext(ctx, c.method, s.url+c.path, body)
	if err != nil {
		return answer{err: err}
	}
	r.ContentLength = int64(len(c.body))
	r.Header.Set("Content-Type", "application/octet-stream")
	if strings.HasPrefix(c.body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.key {
		r.Header.Set("X-API-Key", apiKey)
	} else {
		c.sandbox.address(r.Header, envdPort)
	}
	resp, err := s.clients[protocol].Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, text, err}
}

const (
	envdPort   = "49983"
	socketPort = 8000
)

// address sends a request to a port of a sandbox, as SDKs do.
func (b sandbox) address(h http.Header, port string) {
	h.Set("E2b-Sandbox-Id", b.ID)
	h.Set("E2b-Sandbox-Port", port)
	h.Set("X-Access-Token", b.Token)
}
