package canary

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// scene is everything around a gateway, with a secret in every place.
type scene struct {
	slots  slots // whatever a log must not have
	server slots // those that no client may learn
	mine   slots // those of the first client
	dir    string
	rock   *rock.Cluster
	redis  *redistest.Server
	admin  string // URLs of ROCK's roles
	proxy  string

	key, token, signature string // of the first client
	othersKey             string
	query                 string // where no secret belongs
	rockAnswer            string // what ROCK lets slip
	rockData              string // what ROCK answers a client
}

// The environment variables that a Caddyfile's placeholders name.
const (
	envRedis  = "E2B_CANARY_REDIS_PASSWORD"
	envAES    = "E2B_CANARY_AES_KEY"
	envTokens = "E2B_CANARY_TOKEN_SECRET"
)

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{slots: slots{}, server: slots{}, mine: slots{}, dir: t.TempDir()}
	server := func(name string) string {
		value := s.server.put(name)
		s.slots.add(name, value)
		return value
	}
	client := func(name string) string {
		value := s.mine.put(name)
		s.slots.add(name, value)
		return value
	}
	password := server("Redis password")
	t.Setenv(envRedis, password)
	aes := make([]byte, 32)
	copy(aes, server("AES key"))
	t.Setenv(envAES, base64.StdEncoding.EncodeToString(aes))
	s.slots.add("AES key", os.Getenv(envAES))
	s.server.add("AES key", os.Getenv(envAES))
	t.Setenv(envTokens, server("token secret"))
	s.rockAnswer, s.rockData, s.query = server("ROCK's failure"), s.slots.put("ROCK's data"), client("query")
	s.key, s.signature = "e2b_"+client("API key"), "v1_"+client("signature")
	s.token = "e2ba_k_" + client("wrong access token") // until there is a sandbox
	s.othersKey = "e2b_" + server("other's API key")

	s.redis = redistest.Start(t, redistest.Options{Users: []string{
		"gateway on >" + password + " ~* &* +@all",
	}})
	records := goredis.NewClient(&goredis.Options{Addr: s.redis.Addr})
	t.Cleanup(func() { records.Close() })
	var err error
	if s.rock, err = rock.New(rock.Options{TempDir: t.TempDir(), Records: rock.RedisStrings{Client: records}, EncryptKey: [32]byte(aes)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.rock.Close() })
	s.admin, s.proxy = s.serve(t, rock.Admin), s.serve(t, rock.Proxy)

	// Records that quote secrets, where the gateway reads and where it does not.
	record := server("record")
	for id, text := range map[string]string{
		"no-json":    `{"state": ` + record,
		"odd-state":  `{"sandbox_id":"odd-state","state":"` + record + `","host_ip":"127.0.0.1"}`,
		"odd-type":   `{"sandbox_id":{"` + record + `":1},"state":["` + record + `"],"host_ip":{"a":"` + record + `"}}`,
		"odd-host":   `{"sandbox_id":"odd-host","state":"running","host_ip":"` + record + `"}`,
		"odd-time":   `{"sandbox_id":"odd-time","state":"running","host_ip":"127.0.0.1","create_time":"` + record + `"}`,
		"odd-id":     `{"sandbox_id":"` + record + `","state":"running","host_ip":"127.0.0.1"}`,
		"odd-secret": `{"sandbox_id":"odd-secret","state":"running","host_ip":"127.0.0.1","rock_authorization_encrypted":"` + record + `"}`,
		"odd-owner":  `{"sandbox_id":"odd-owner","state":"running","host_ip":"127.0.0.1","metadata":{"e2b-gateway/owner":"` + record + `"}}`,
	} {
		s.redis.Do("SET", "alive:"+id, text)
	}
	return s
}

func (s *scene) serve(t *testing.T, role rock.Role) (url string) {
	t.Helper()
	server, err := s.rock.Serve(role, "")
	if err != nil {
		t.Fatal(err)
	}
	return server.URL()
}

// access are the options that let two clients in.
func (s *scene) access() string {
	return fmt.Sprintf(`keys static {
			key %s alice
			key %s bob
		}
		tokens {
			key k {env.`+envTokens+`}
		}`, auth.DigestOf(s.key), auth.DigestOf(s.othersKey))
}

// caddyfile is a gateway that logs all it can, in both formats. redis is the
// address of the registry; access are the options that say who gets in; site are
// more directives.
func (s *scene) caddyfile(redis, access, site string) string {
	return fmt.Sprintf(`{
	debug
	metrics
	log json {
		level DEBUG
		output file %[1]s/json.log
		format json
	}
	log console {
		level DEBUG
		output file %[1]s/console.log
		format console
	}
	servers {
		trace
	}
	e2b {
		%[6]s
		registry redis {
			address %[2]s
			username gateway
			password {env.`+envRedis+`}
			timeout 300ms
		}
		cluster default {
			admin %[3]s
			proxy %[4]s
			aes_key {env.`+envAES+`}
		}
	}
}
:8080 {
	log {
		level DEBUG
		output file %[1]s/access.log
		format console
	}
	tracing {
		span canary
	}
	@proxied path /proxied/*
	route {
		%[5]s
		reverse_proxy @proxied %[4]s {
			transport e2b
		}
		e2b
	}
}
`, s.dir, redis, s.admin, s.proxy, site, access)
}

// logged is what the gateway has written to its files.
func (s *scene) logged(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"json.log", "console.log", "access.log"} {
		b, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// failing is a handler of somebody else's that stands in front of the gateway's
// and panics, or fails, as the request's path says.
type failing struct{}

func init() {
	caddy.RegisterModule(failing{})
	httpcaddyfile.RegisterHandlerDirective("canary_failing", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return failing{}, nil
	})
}

// CaddyModule returns the Caddy module information.
func (failing) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.canary_failing", New: func() caddy.Module { return new(failing) }}
}

// ServeHTTP fails or passes the request on.
func (failing) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	switch r.URL.Path {
	case "/panic":
		panic("a handler in front panics")
	case "/fail":
		return caddyhttp.Error(http.StatusServiceUnavailable, errors.New("a handler in front fails"))
	case "/refuse":
		return caddyhttp.Error(http.StatusForbidden, context.Canceled)
	}
	return next.ServeHTTP(w, r)
}
