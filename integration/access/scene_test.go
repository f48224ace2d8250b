package access

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// credential is a column of every table here: what a client shows.
type credential string

const (
	none      credential = "none"
	malformed credential = "malformed"
	wrong     credential = "wrong"   // as it should look, and nobody's
	expired   credential = "expired" // a key or signature past its time; the token of a sandbox that has ended
	revoked   credential = "revoked" // a key disabled, a token whose key was taken away, both while the gateway runs
	foreign   credential = "foreign" // somebody else's, good for what is theirs
	valid     credential = "valid"
)

var credentials = []credential{none, malformed, wrong, expired, revoked, foreign, valid}

// apiKeys are the keys of the control plane.
var apiKeys = map[credential]string{
	malformed: "not-a-key",
	wrong:     "e2b_" + strings.Repeat("0", 40),
	expired:   "e2b_" + strings.Repeat("e1", 20),
	revoked:   "e2b_" + strings.Repeat("2e", 20),
	foreign:   "e2b_" + strings.Repeat("b0", 20),
	valid:     "e2b_" + strings.Repeat("a1", 20),
}

// The two who hold keys. All keys but the foreign one are or were alice's.
const alice, bob = "alice", "bob"

// mode is how the data plane is opened.
type mode string

const (
	// made: the gateway makes and checks the tokens.
	made mode = "tokens"
	// passthrough: the token is an API key.
	passthrough mode = "passthrough"
)

// scene is a gateway with everything behind it.
type scene struct {
	*harness.Process
	mode   mode
	client *http.Client
	keys   string // the file
	redis  *redistest.Server
	roles  string // lines of the Caddyfile
}

// tokenSecrets are the environment variables of the token keys, by id.
var tokenSecrets = map[string]string{"new": "E2B_ACCESS_NEW", "old": "E2B_ACCESS_OLD", "gone": "E2B_ACCESS_GONE"}

// tokens are what the gateway makes and checks with each of the keys.
var tokens = map[string]*auth.Tokens{}

// TestMain sets what the gateways' environment holds, and lets more tests run at
// once than there are processors: most of the time all of them wait.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
	}
	for id, name := range tokenSecrets {
		secret := strings.Repeat(id+"-", auth.MinTokenSecret)
		made, err := auth.NewTokens([]auth.TokenKey{{ID: id, Secret: []byte(secret)}})
		if err != nil {
			panic(err)
		}
		tokens[id] = made
		os.Setenv(name, secret)
	}
	os.Exit(m.Run())
}

// open starts everything, as it was before anything was revoked.
func open(t *testing.T, mode mode, transport harness.Transport) *scene {
	t.Helper()
	s := &scene{mode: mode, keys: filepath.Join(t.TempDir(), "keys.json")}
	options := rock.Options{TempDir: t.TempDir(), Pause: true, Envd: serveEnvd}
	s.behind(t, options)
	s.writeKeys(t, "")
	s.Process = harness.Binary(t, s.caddyfile("gone", "old"), transport)
	s.client = s.Client()
	return s
}

// behind starts the double.
func (s *scene) behind(t *testing.T, options rock.Options) {
	t.Helper()
	cluster, err := rock.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Errorf("closing the double: %v", err)
		}
	})
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		server, err := cluster.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		s.roles += fmt.Sprintf("%s %s\n", role, server.URL())
	}
}

// openOnRedis starts everything with a real Redis as the registry.
func openOnRedis(t *testing.T, mode mode) *scene {
	t.Helper()
	s := &scene{mode: mode, keys: filepath.Join(t.TempDir(), "keys.json"), redis: redistest.Start(t, redistest.Options{})}
	records := goredis.NewClient(&goredis.Options{Addr: s.redis.Addr})
	t.Cleanup(func() { records.Close() })
	s.behind(t, rock.Options{TempDir: t.TempDir(), Pause: true, Envd: serveEnvd, Records: rock.RedisStrings{Client: records}})
	s.writeKeys(t, "")
	s.Process = harness.Binary(t, s.caddyfile("gone", "old"))
	s.client = s.Client()
	return s
}

// caddyfile lets tokens be made with the first and checked with all of the keys.
func (s *scene) caddyfile(tokenKeys ...string) string {
	option := "tokens passthrough"
	if s.mode == made {
		option = "tokens {\n"
		for _, id := range tokenKeys {
			option += fmt.Sprintf("key %s {env.%s}\n", id, tokenSecrets[id])
		}
		option += "}"
	}
	registry := ""
	if s.redis != nil {
		registry = "registry redis {\naddress " + s.redis.Addr + "\n}"
	}
	// Other tests may keep the machine so busy that a lookup needs longer than the second it has by default.
	return fmt.Sprintf(`{
	e2b {
		keys file %s
		%s
		rock_api admin
		domain box.test
		traffic private
		cache {
			lookup_timeout 10s
		}
		%s
		cluster test {
			%s
		}
	}
}
:80 {
	log
	e2b
}
`, s.keys, option, registry, s.roles)
}

// writeKeys writes the file of keys. The revoked key's record has more.
func (s *scene) writeKeys(t *testing.T, more string) {
	t.Helper()
	records := fmt.Sprintf(`{"keys": [
		{"digest": %q, "subject": "alice"},
		{"digest": %q, "subject": "bob"},
		{"digest": %q, "subject": "alice", "expires": "2001-01-01T00:00:00Z"},
		{"digest": %q, "subject": "alice"%s}
	]}`, digest(valid), digest(foreign), digest(expired), digest(revoked), more)
	if err := os.WriteFile(s.keys+".new", []byte(records), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.keys+".new", s.keys); err != nil {
		t.Fatal(err)
	}
}

func digest(c credential) string { return auth.DigestOf(apiKeys[c]).String() }

// revoke takes back what is called revoked: the key in the file, and the token
// key by a reload.
func (s *scene) revoke(t *testing.T) {
	t.Helper()
	const list = "/v2/sandboxes?metadata=none%3Dsuch"
	if status, body := s.do(t, apiKeys[revoked], "GET", list, ""); status != 200 {
		t.Fatalf("before it is revoked: %d %s", status, body)
	}
	s.writeKeys(t, `, "disabled": true`)
	s.Reload(s.caddyfile("new", "old"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for status := 0; status != 401; {
		if status, _ = s.do(t, apiKeys[revoked], "GET", list, ""); ctx.Err() != nil {
			t.Fatalf("30 s after it is revoked: %d", status)
		}
	}
}

func (s *scene) do(t *testing.T, key, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(r)
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

// cast are the sandboxes of one column of the matrix. Every name begins with the
// column's.
type cast struct {
	name string
	// tokens open, or do not open, the sandbox mine.
	tokens map[credential]string
	old    string // a good token for mine, made with the old key
	// traffic are the same for mine's ports that are not envd's.
	traffic map[credential]string
}

func (c *cast) mine() string   { return c.name + "-mine" }   // alice's, lives on
func (c *cast) paused() string { return c.name + "-paused" } // alice's, may be paused
func (c *cast) doomed() string { return c.name + "-doomed" } // alice's, may be killed
func (c *cast) ended() string  { return c.name + "-ended" }  // alice's, was killed
func (c *cast) bobs() string   { return c.name + "-bobs" }

// cast makes the sandboxes, before anything is revoked.
func (s *scene) cast(t *testing.T, name string) *cast {
	t.Helper()
	c := &cast{name: name, tokens: map[credential]string{}}
	for _, id := range []string{c.mine(), c.paused(), c.doomed(), c.ended()} {
		c.tokens[revoked] = s.create(t, valid, id)
	}
	c.tokens[foreign] = s.create(t, foreign, c.bobs())
	if status, body := s.do(t, apiKeys[valid], "DELETE", "/sandboxes/"+c.ended(), ""); status != 204 {
		t.Fatalf("%d %s", status, body)
	}
	if s.mode == passthrough {
		c.tokens = apiKeys
		return c
	}
	c.tokens[revoked] = tokens["gone"].Mint(auth.AccessToken, c.mine(), alice)
	c.tokens[malformed] = "not-a-token"
	c.tokens[valid] = tokens["new"].Mint(auth.AccessToken, c.mine(), alice)
	c.tokens[wrong] = tokens["new"].Mint(auth.AccessToken, c.paused(), alice)
	c.tokens[expired] = tokens["new"].Mint(auth.AccessToken, c.ended(), alice)
	c.traffic = map[credential]string{
		malformed: "not-a-token",
		wrong:     tokens["new"].Mint(auth.TrafficToken, c.paused(), alice),
		expired:   tokens["new"].Mint(auth.TrafficToken, c.ended(), alice),
		revoked:   tokens["gone"].Mint(auth.TrafficToken, c.mine(), alice),
		foreign:   tokens["new"].Mint(auth.TrafficToken, c.bobs(), bob),
		valid:     tokens["new"].Mint(auth.TrafficToken, c.mine(), alice),
	}
	c.old = tokens["old"].Mint(auth.AccessToken, c.mine(), alice)
	return c
}

// create makes a sandbox, and checks that the token it comes with is the one that
// these tests would make.
func (s *scene) create(t *testing.T, owner credential, id string) (token string) {
	t.Helper()
	status, body := s.do(t, apiKeys[owner], "POST", "/sandboxes", fmt.Sprintf(
		`{"templateID":"python:3.11","metadata":{"ap-sandbox-id":%q,"marker":%q},"timeout":600}`, id, id))
	var answer struct{ EnvdAccessToken string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 201 {
		t.Fatalf("creating %s: %d %s", id, status, body)
	}
	want := apiKeys[owner]
	if s.mode == made {
		want = tokens["gone"].Mint(auth.AccessToken, id, map[credential]string{valid: alice, foreign: bob}[owner])
	}
	if answer.EnvdAccessToken != want {
		t.Fatalf("%s has the token %q, want %q", id, answer.EnvdAccessToken, want)
	}
	return answer.EnvdAccessToken
}

// socketFrame is what a sandbox says on a WebSocket, once: its id in a text frame.
func socketFrame(id string) []byte { return append([]byte{0x81, byte(len(id))}, id...) }

// serveEnvd is the full envd, and a WebSocket wherever one is asked for.
func serveEnvd(s *rock.Sandbox) http.Handler {
	plain := envd.In(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			plain.ServeHTTP(w, r)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer conn.Close()
		var answer bytes.Buffer
		answer.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		answer.Write(socketFrame(s.ID))
		answer.WriteString("\x88\x02\x03\xe8") // 1000, normal closure
		_, _ = conn.Write(answer.Bytes())
	})
}
