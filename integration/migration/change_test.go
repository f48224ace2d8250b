package migration

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

const alice = "e2b_a11ce00000"

// scene is ROCK, with the files and addresses that the page's Caddyfiles name.
type scene struct {
	t      *testing.T
	fill   *strings.Replacer
	admin  string // the admin role, past the gateway
	client *http.Client
}

func open(t *testing.T) *scene {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	records := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	t.Cleanup(func() { records.Close() })
	cluster, err := rock.New(rock.Options{TempDir: t.TempDir(), Records: rock.RedisStrings{Client: records}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	roles := map[rock.Role]string{}
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		s, err := cluster.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		roles[role] = s.URL()
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"keys.json":     `{"keys": [{"digest": "` + auth.DigestOf(alice).String() + `", "subject": "alice"}]}`,
		"token-2026-12": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &scene{t: t, admin: roles[rock.Admin], fill: strings.NewReplacer("/etc/e2b-gateway", dir, "redis:6379", server.Addr,
		"http://rock-admin:8080", roles[rock.Admin], "http://rock-proxy-1:8081 http://rock-proxy-2:8081", roles[rock.Proxy])}
}

// do makes a request and fails the test when there is no answer.
func (s *scene) do(method, url, host, body string, header http.Header) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header, r.Host = header, host
	r.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// token reads the access token in an answer to create or connect.
func token(t *testing.T, body string) string {
	t.Helper()
	var answer struct{ EnvdAccessToken string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.EnvdAccessToken == "" {
		t.Fatalf("no token in %s", body)
	}
	return answer.EnvdAccessToken
}

// All that the page says of tokens when the gateway takes the old front's names.
func TestProgramsKeepTheirSandboxesThroughTheChange(t *testing.T) {
	whole, first := blocks(t, "caddyfile")[0], blocks(t, "caddyfile")[1]
	s := open(t)
	gateway := inprocess.Start(t, s.fill.Replace(first))
	s.client = gateway.Client()

	const api, data = "api.sandbox.example.com", "data.sandbox.example.com"
	status, body := s.do("POST", s.admin+"/sandboxes", "", `{"templateID":"base","metadata":{"ap-sandbox-id":"old"},"timeout":300}`, http.Header{"X-Api-Key": {alice}})
	if status != http.StatusCreated {
		t.Fatalf("create past the gateway: %d %s", status, body)
	}
	held := token(t, body)
	list := func() int {
		status, _ := s.do("POST", gateway.URL+"/filesystem.Filesystem/ListDir", data, `{"path":"/"}`, http.Header{
			"X-Access-Token": {held}, "E2b-Sandbox-Id": {"old"}, "E2b-Sandbox-Port": {"49983"}})
		return status
	}

	if status := list(); status != http.StatusOK {
		t.Errorf("step 1, with the token of the old front: %d", status)
	}
	gateway.Reload(s.fill.Replace(strings.Replace(first, "unowned allow", "", 1)))
	if status := list(); status != http.StatusBadGateway {
		t.Errorf("step 2, a sandbox from before: %d", status)
	}
	gateway.Reload(s.fill.Replace(strings.Replace(whole, "tokens {", "unowned allow\ntokens {", 1)))
	if status := list(); status != http.StatusUnauthorized {
		t.Errorf("step 3, with the token that is a key: %d", status)
	}
	status, body = s.do("POST", gateway.URL+"/sandboxes/old/connect", api, `{"timeout":300}`, http.Header{"X-Api-Key": {alice}})
	if status != http.StatusOK && status != http.StatusCreated {
		t.Fatalf("connect: %d %s", status, body)
	}
	held = token(t, body)
	if status := list(); status != http.StatusOK {
		t.Errorf("step 3, with a new token: %d", status)
	}
	// The whole file as it stands.
	gateway.Reload(s.fill.Replace(whole))
}
