package incidents

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

const (
	apiKey = "e2b_a11ce00000"
	// published is a port that every sandbox's record maps and nothing listens at.
	published = 8080
	// streams is how many streams a sandbox may have at a time.
	streams = 4
)

// deployment is what a Caddyfile says of a world.
type deployment struct {
	registry  string
	admin     string
	proxies   []string
	tokenKeys string
	comment   string // a change that changes nothing
}

// world is a gateway with all that it needs, and its users.
type world struct {
	t       *testing.T
	dir     string
	redis   *redistest.Server
	relay   *relay
	rock    *rock.Cluster
	proxies []*rock.Server
	deployment
	*harness.Process
	client *http.Client
	// base is the gateway's URL, which stays through reloads, for users who do not wait
	// for them.
	base string
	// skew is how far the clocks of everybody else are behind this machine's.
	skew      time.Duration
	sandboxes []sandbox
	held      []*stream
	// complaint is the call that explain is asked about.
	complaint complaint
}

// sandbox is what the SDK object of a program holds.
type sandbox struct{ id, token string }

// complaint is a call that a user says does not work.
type complaint struct {
	sandbox string
	port    int
}

// settle makes a world. Clocks of everybody else may be behind.
func settle(t *testing.T, skew time.Duration) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), skew: skew, redis: redistest.Start(t, redistest.Options{})}
	w.relay = startRelay(t, w.redis.Addr)
	records := goredis.NewClient(&goredis.Options{Addr: w.redis.Addr})
	t.Cleanup(func() { records.Close() })
	var err error
	if w.rock, err = rock.New(rock.Options{TempDir: t.TempDir(), Published: []int{published}, Records: rock.RedisStrings{Client: records}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.rock.Close() })
	w.registry = w.relay.ln.Addr().String()
	w.admin = w.serve(rock.Admin)
	for range 2 {
		w.deployment.proxies = append(w.deployment.proxies, w.serve(rock.Proxy))
	}
	for _, name := range []string{"one", "two"} {
		w.file(name, strings.Repeat(name, 32))
	}
	w.tokenKeys = w.tokenKey("one")
	w.Process = harness.Binary(t, w.caddyfile())
	w.client, w.base = w.Process.Client(), w.URL
	for i := range 8 {
		w.create(fmt.Sprintf("sandbox-%d", i))
	}
	w.complaint = complaint{w.sandboxes[0].id, 49983}
	for _, s := range w.sandboxes[:2] {
		w.held = append(w.held, w.open(s))
	}
	return w
}

// serve starts a role, behind a clock of its own if clocks differ.
func (w *world) serve(role rock.Role) string {
	w.t.Helper()
	server, err := w.rock.Serve(role, "")
	if err != nil {
		w.t.Fatal(err)
	}
	if role == rock.Proxy {
		w.proxies = append(w.proxies, server)
	}
	if w.skew == 0 {
		return server.URL()
	}
	to, err := url.Parse(server.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	dated := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", w.now().UTC().Format(http.TimeFormat))
			return nil
		},
	})
	w.t.Cleanup(dated.Close)
	return dated.URL
}

// now is the time by everybody else's clock.
func (w *world) now() time.Time { return time.Now().Add(-w.skew) }

func (w *world) file(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// tokenKey is a line of tokens with the secret in a file.
func (w *world) tokenKey(id string) string {
	return fmt.Sprintf("key %s {file.%s}", id, filepath.Join(w.dir, id))
}

// caddyfile is that of an operator. Routes are remembered for a moment only, so
// that incidents of the registry show soon.
func (w *world) caddyfile() string {
	return fmt.Sprintf(`{
	servers {
		protocols h1
		listener_wrappers {
			e2b
		}
	}
	e2b {
		registry redis {
			address %s
		}
		cache {
			ttl 250ms
		}
		cluster main {
			admin %s
			proxy %s
			allow 127.0.0.1/32
			unmapped_ports refuse
		}
		keys static {
			key %s alice
		}
		tokens {
			%s
		}
		limits {
			sandbox {
				streams %d
			}
		}
	}
}
:80 {
	# %s
	log
	e2b
}
`, w.registry, w.admin, strings.Join(w.deployment.proxies, " "), auth.DigestOf(apiKey), w.tokenKeys, streams, w.comment)
}

// change reloads the gateway, as operators do.
func (w *world) change(how func(*deployment)) {
	w.t.Helper()
	how(&w.deployment)
	w.Reload(w.caddyfile())
}
