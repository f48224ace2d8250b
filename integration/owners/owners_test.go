package owners

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// Keys of the tests. Two are one person's.
const (
	alice       = "e2b_a11ce00000"
	alicesOther = "e2b_a11ce00001"
	bob         = "e2b_b0b0000000"
	root        = "e2b_4d41400000"
)

// scene is a gateway with everything behind it.
type scene struct {
	*harness.Gateway
	client *http.Client
	rock   *rock.Cluster
	admin  string // the double's admin role, past the gateway
}

// open starts everything with a registry, "redis" or "control".
func open(t *testing.T, registry string) *scene {
	t.Helper()
	aesKey := [32]byte{1, 2, 3}
	t.Setenv("ROCK_AES_KEY", base64.StdEncoding.EncodeToString(aesKey[:]))
	t.Setenv("TOKEN_KEY", strings.Repeat("k", 32))
	s := new(scene)
	o := rock.Options{TempDir: t.TempDir(), Pause: true, EncryptKey: aesKey}
	if registry == "redis" {
		server := redistest.Start(t, redistest.Options{})
		records := goredis.NewClient(&goredis.Options{Addr: server.Addr})
		t.Cleanup(func() { records.Close() })
		o.Records = rock.RedisStrings{Client: records}
		registry = "redis " + server.Addr
	}
	var err error
	if s.rock, err = rock.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.rock.Close() })
	admin, err := s.rock.Serve(rock.Admin, "")
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := s.rock.Serve(rock.Proxy, "")
	if err != nil {
		t.Fatal(err)
	}
	s.admin = admin.URL()
	if address, ok := strings.CutPrefix(registry, "redis "); ok {
		registry = "redis {\n address " + address + "\n}"
	}
	s.Gateway = inprocess.Start(t, fmt.Sprintf(`{
	e2b {
		keys static {
			key %s alice {
				user_id u-alice
			}
			key %s alice
			key %s bob
			key %s root {
				scopes admin
			}
		}
		tokens {
			key a {env.TOKEN_KEY}
		}
		registry %s
		cluster test {
			admin %s
			proxy %s
			aes_key {env.ROCK_AES_KEY}
		}
	}
}
:80 {
	e2b
}
`, auth.DigestOf(alice), auth.DigestOf(alicesOther), auth.DigestOf(bob), auth.DigestOf(root), registry, admin.URL(), proxy.URL()))
	s.client = s.Client()
	return s
}

// do makes a control-plane call. The status is 0 when there was no answer.
func (s *scene) do(key, method, url, body string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if strings.HasPrefix(url, "/") {
		url = s.URL + url
	}
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-API-Key", key)
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// create makes a sandbox and returns its access token.
func (s *scene) create(t *testing.T, key, url, id string) string {
	t.Helper()
	status, body := s.do(key, "POST", url, `{"templateID":"base","metadata":{"ap-sandbox-id":"`+id+`","job":"x"},"timeout":300}`)
	var answer struct {
		SandboxID       string
		EnvdAccessToken string
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusCreated || answer.SandboxID != id {
		t.Fatalf("create: %d %s", status, body)
	}
	return answer.EnvdAccessToken
}

// Contract checklist 19, 21 and 28, field report D13.
func TestASandboxIsItsOwners(t *testing.T) {
	for _, registry := range []string{"redis", "control"} {
		t.Run(registry, func(t *testing.T) {
			s := open(t, registry)
			if token := s.create(t, alice, "/v2/sandboxes", "one"); !strings.HasPrefix(token, string(auth.AccessToken)) {
				t.Errorf("the token is %q", token)
			}
			s.create(t, bob, "/sandboxes", "two")

			// Each sees their own, with any key of theirs and without the note.
			for _, tc := range []struct{ key, id string }{{alice, "one"}, {alicesOther, "one"}, {bob, "two"}, {root, "one"}} {
				status, body := s.do(tc.key, "GET", "/sandboxes/"+tc.id, "")
				if status != 200 || !strings.Contains(body, `"job":"x"`) || strings.Contains(body, "e2b-gateway") {
					t.Errorf("%+v: %d %s", tc, status, body)
				}
			}
			for key, want := range map[string]string{alice: "one", alicesOther: "one", bob: "two", root: "one two"} {
				status, body := s.do(key, "GET", "/v2/sandboxes?metadata=job%3Dx", "")
				for _, id := range []string{"one", "two"} {
					if status != 200 || strings.Contains(body, `"`+id+`"`) != strings.Contains(want, id) || strings.Contains(body, "e2b-gateway") {
						t.Errorf("%s wants %s: %d %s", key, want, status, body)
					}
				}
			}

			// Nobody else's, and no difference to one that never was.
			for _, call := range []struct{ method, action, body string }{
				{"GET", "", ""}, {"DELETE", "", ""}, {"POST", "/timeout", `{"timeout":60}`}, {"POST", "/pause", "{}"}, {"POST", "/connect", "{}"},
			} {
				status, unknown := s.do(bob, call.method, "/sandboxes/never"+call.action, call.body)
				foreign, body := s.do(bob, call.method, "/sandboxes/one"+call.action, call.body)
				if status != 404 || foreign != 404 || body != unknown {
					t.Errorf("%s %s: %d %s, %d %s", call.method, call.action, status, unknown, foreign, body)
				}
			}
			if status, body := s.do(bob, "POST", "/sandboxes", `{"templateID":"base","metadata":{"ap-sandbox-id":"one"},"timeout":300}`); status != 400 {
				t.Errorf("bob takes an id: %d %s", status, body)
			}
			if status, body := s.do(alice, "DELETE", "/sandboxes/one", ""); status != 204 {
				t.Errorf("its owner ends it: %d %s", status, body)
			}
			_, unknown := s.do(alice, "DELETE", "/sandboxes/never", "")
			if status, body := s.do(alice, "DELETE", "/sandboxes/one", ""); status != 404 || body != unknown {
				t.Errorf("its owner ends it again: %d %s", status, body)
			}
			if logs := s.Logs(); strings.Contains(logs, alice) || strings.Contains(logs, bob) {
				t.Error("a key is in the log")
			}
		})
	}
}

// Sandboxes that were made before the gateway came, or by other programs.
func TestASandboxMadePastTheGatewayBelongsToTheKeyThatRockNoted(t *testing.T) {
	s := open(t, "redis")
	for id, key := range map[string]string{"bobs": bob, "nobodys": "", "strangers": "e2b_0000000000"} {
		s.create(t, key, s.admin+"/sandboxes", id)
	}
	for _, tc := range []struct {
		key, id string
		want    int
	}{
		{bob, "bobs", 200}, {alice, "bobs", 404}, {bob, "nobodys", 404}, {bob, "strangers", 404}, {root, "nobodys", 200}, {root, "strangers", 200},
	} {
		if status, body := s.do(tc.key, "GET", "/sandboxes/"+tc.id, ""); status != tc.want {
			t.Errorf("%+v: %d %s", tc, status, body)
		}
	}
	if _, body := s.do(bob, "GET", "/v2/sandboxes?metadata=job%3Dx", ""); !strings.Contains(body, `"bobs"`) || strings.Contains(body, `"nobodys"`) || strings.Contains(body, `"strangers"`) {
		t.Errorf("bob's list: %s", body)
	}
}
