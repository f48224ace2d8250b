package capability

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// mode is a deployment that the SDKs meet.
type mode string

const (
	// alone is ROCK behind an ingress that splits the paths as ROCK's guide asks for.
	alone mode = "rock-alone"
	// shared is the gateway with no option that it does not need: the SDK is told two URLs, HTTP/1.1 without TLS.
	shared mode = "shared-url"
	// domainH1 and domainH2 are the gateway with a domain, which is all that the SDK is told, over TLS, and with all that can be opted in.
	domainH1 mode = "domain-h1"
	domainH2 mode = "domain-h2"
	// withEnvd is domainH2 with the full envd in the sandbox in place of ROCK's own commands and files.
	withEnvd mode = "domain-envd"
	// byControl is domainH2 in front of a ROCK whose records nobody but itself can read, as a local one's are.
	byControl mode = "domain-control"
)

var modes = []mode{alone, shared, domainH1, domainH2, withEnvd}

func (m mode) transport() harness.Transport {
	return map[mode]harness.Transport{shared: harness.Cleartext, domainH1: harness.TLS1, domainH2: harness.TLS2, withEnvd: harness.TLS2, byControl: harness.TLS2}[m]
}

const (
	apiKey   = "e2b_" + "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
	template = "python:3.11"
	// tokenSecret is the environment variable of the key that access tokens are made with.
	tokenSecret = "E2B_CAPABILITY_SECRET"
)

// TestMain raises the number of tests that run at once, unless the caller chose it: the programs spend part of their time waiting.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
	}
	os.Setenv(tokenSecret, strings.Repeat("capability-", auth.MinTokenSecret))
	os.Exit(m.Run())
}

// deployment is a running mode.
type deployment struct {
	client.Deployment
	mode    mode
	cluster *rock.Cluster
	// gateway is nil for ROCK alone.
	gateway *harness.Process
}

func open(t *testing.T, m mode) *deployment {
	t.Helper()
	registry := redistest.Start(t, redistest.Options{})
	records := goredis.NewClient(&goredis.Options{Addr: registry.Addr})
	t.Cleanup(func() { records.Close() })
	options := rock.Options{TempDir: t.TempDir(), Rocklet: true, Published: []int{mapped}, Records: rock.RedisStrings{Client: records}}
	if m == withEnvd {
		options.Envd = envd.In
	}
	cluster, err := rock.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Errorf("closing the double: %v", err)
		}
	})
	roles := map[rock.Role]string{}
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		server, err := cluster.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		roles[role] = server.URL()
	}
	d := &deployment{mode: m, cluster: cluster, Deployment: client.Deployment{APIKey: apiKey, TemplateID: template}}
	if m == alone {
		d.APIURL, d.SandboxURL = ingress(t, roles), roles[rock.Proxy]
		return d
	}
	d.gateway = harness.Binary(t, caddyfile(m, roles, registry.Addr), m.transport())
	d.CAFile = d.gateway.CAFile
	d.APIURL, d.SandboxURL = d.gateway.URL, d.gateway.URL
	if m != shared {
		d.Domain = harness.Domain + d.gateway.URL[strings.LastIndex(d.gateway.URL, ":"):]
	}
	return d
}

func caddyfile(m mode, roles map[rock.Role]string, registry string) string {
	domain, optIns := "", ""
	if m != shared {
		domain = "domain " + harness.Domain + ":" + harness.Port
		optIns = "allow 127.0.0.1/32\nresume restart\npause stop\n"
		if m == byControl {
			optIns += "registry control"
		} else {
			optIns += "registry redis {\naddress " + registry + "\n}"
		}
	}
	return fmt.Sprintf(`{
	e2b {
		keys static {
			key %s somebody
		}
		tokens {
			key one {env.%s}
		}
		%s
		cluster test {
			admin %s
			proxy %s
			%s
		}
	}
}
:443 {
	e2b
}
`, auth.DigestOf(apiKey), tokenSecret, domain, roles[rock.Admin], roles[rock.Proxy], optIns)
}

// ingress splits the paths of E2B_API_URL between ROCK's roles, as ROCK's guide says: the list is the proxy role's.
func ingress(t *testing.T, roles map[rock.Role]string) (base string) {
	t.Helper()
	to := func(role rock.Role) http.Handler {
		u, err := url.Parse(roles[role])
		if err != nil {
			t.Fatal(err)
		}
		return httputil.NewSingleHostReverseProxy(u)
	}
	mux := http.NewServeMux()
	mux.Handle("/", to(rock.Admin))
	mux.Handle("GET /v2/sandboxes", to(rock.Proxy))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}
