package commands

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// running is a gateway in a process of its own, with a ROCK and its Redis, and one
// sandbox of alice's.
type running struct {
	*harness.Process
	t       *testing.T
	redis   *redistest.Server
	key     string // alice's
	sandbox string
	token   string
}

func start(t *testing.T) *running {
	t.Helper()
	s := &running{t: t, redis: redistest.Start(t, redistest.Options{}), key: auth.NewKey()}
	records := goredis.NewClient(&goredis.Options{Addr: s.redis.Addr})
	t.Cleanup(func() { records.Close() })
	cluster, err := rock.New(rock.Options{TempDir: t.TempDir(), Records: rock.RedisStrings{Client: records}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	var urls []any
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		server, err := cluster.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, server.URL())
	}
	t.Setenv("E2B_TEST_NEW", newSecret)
	s.Process = harness.Binary(t, fmt.Sprintf(`{
	e2b {
		registry redis {
			address %s
		}
		cluster only {
			admin %s
			proxy %s
		}
		keys static {
			key %s alice
		}
		tokens {
			key 2027-01 {env.E2B_TEST_NEW}
		}
	}
}
:8080 {
	e2b
}
`, append(append([]any{s.redis.Addr}, urls...), auth.DigestOf(s.key))...))
	var made struct{ SandboxID, EnvdAccessToken string }
	body, status := s.send(http.MethodPost, "/sandboxes", `{"templateID":"base","timeout":600}`, http.Header{"X-Api-Key": {s.key}, "Content-Type": {"application/json"}})
	if err := json.NewDecoder(body).Decode(&made); err != nil || status != http.StatusCreated || made.SandboxID == "" {
		t.Fatalf("%d %v", status, err)
	}
	s.sandbox, s.token = made.SandboxID, made.EnvdAccessToken
	return s
}

func (s *running) send(method, path, body string, header http.Header) (io.ReadCloser, int) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header = header
	response, err := s.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { response.Body.Close() })
	return response.Body, response.StatusCode
}

// envelope is one message of a Connect stream.
func envelope(message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
}

// stream begins a command that runs until it is ended, and returns what it sends.
func (s *running) stream() io.Reader {
	s.t.Helper()
	body, status := s.send(http.MethodPost, "/process.Process/Start", envelope(`{"process":{"cmd":"/bin/bash","args":["-l","-c","sleep 60"]}}`), http.Header{
		"Content-Type": {"application/connect+json"}, "Connect-Protocol-Version": {"1"}, "Connect-Timeout-Ms": {"60000"},
		"E2b-Sandbox-Id": {s.sandbox}, "E2b-Sandbox-Port": {"49983"}, "X-Access-Token": {s.token},
	})
	first := make([]byte, 5)
	if _, err := io.ReadFull(body, first); err != nil || status != http.StatusOK || first[0] != 0 {
		rest, _ := io.ReadAll(body)
		s.t.Fatalf("%d %v %s", status, err, rest)
	}
	return body
}

// ask runs a command against the gateway.
func (s *running) ask(stdin string, args ...string) result {
	s.t.Helper()
	return run(s.t, stdin, nil, append(args, "--address", strings.TrimPrefix(s.AdminURL(), "http://"))...)
}

func TestARunningGatewaySaysWhereASandboxIs(t *testing.T) {
	s := start(t)
	var got struct {
		SandboxID string `json:"sandbox_id"`
		Answer    string
		Cluster   string
		Owner     string
		State     string
	}
	s.ask("", "routes", "get", s.sandbox, "--json").decode(t, 0, &got)
	if got.SandboxID != s.sandbox || got.Answer != "here" || got.Cluster != "only" || got.Owner != "alice" || got.State != "running" {
		t.Errorf("%+v", got)
	}
	if r := s.ask("", "routes", "get", s.sandbox, "--fresh"); r.code != 0 || !strings.Contains(r.out, "answer      here\n") || !strings.Contains(r.out, "owner       alice\n") {
		t.Errorf("%+v", r)
	}
	var list struct {
		Total  int
		Routes []struct {
			SandboxID string `json:"sandbox_id"`
		}
	}
	s.ask("", "routes", "list", "--cluster", "only", "--json").decode(t, 0, &list)
	if list.Total != 1 || len(list.Routes) != 1 || list.Routes[0].SandboxID != s.sandbox {
		t.Errorf("%+v", list)
	}
	if r := s.ask("", "routes", "list"); r.code != 0 || !strings.HasPrefix(r.out, "SANDBOX ") || !strings.Contains(r.out, s.sandbox+"  only  ") {
		t.Errorf("%+v", r)
	}
	if r := s.ask("", "routes", "forget", s.sandbox); r.code != 0 || r.out != "done\n" {
		t.Errorf("%+v", r)
	}
	s.ask("", "routes", "list", "--json").decode(t, 0, &list)
	if list.Total != 0 {
		t.Errorf("a forgotten route is listed: %+v", list)
	}
	for _, args := range [][]string{{}, {s.sandbox, "--all"}} {
		if r := s.ask("", append([]string{"routes", "forget"}, args...)...); r.code != 2 || !strings.Contains(r.err, "say which") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := s.ask("", "routes", "get", "not-a-sandbox", "--json"); r.code != 1 {
		t.Errorf("a sandbox that is gone: %+v", r)
	}
	s.redis.Stop()
	if r := s.ask("", "routes", "get", "another", "--json"); r.code != 2 || !strings.Contains(r.out, `"unknown"`) {
		t.Errorf("nobody can say: %+v", r)
	}
	if r := s.ask("", "explain", "http://x/health", "--sandbox", "another"); r.code != 2 || !strings.Contains(r.out, "registry_unavailable") {
		t.Errorf("nobody can say what would become of it: %+v", r)
	}
}

func TestARunningGatewayExplainsARequest(t *testing.T) {
	s := start(t)
	type explanation struct {
		Sent    bool
		Cause   string
		Subject string
		StopsAt string `json:"stops_at"`
		Plane   string
	}
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  explanation
	}{
		"a sandbox by itself": {"", []string{s.sandbox}, explanation{Sent: true, Cause: "ok", Subject: "alice", Plane: "data"}},
		"a call with its key": {s.key, []string{"https://e2b.example.com/sandboxes/" + s.sandbox, "--credential", "X-API-Key"},
			explanation{Sent: true, Cause: "ok", Subject: "alice", Plane: "control"}},
		"a call with a token": {s.token, []string{"http://x/files?path=a", "--sandbox", s.sandbox, "--port", "49983", "--credential", "x-access-token"},
			explanation{Sent: true, Cause: "ok", Subject: "alice", Plane: "data"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.ask(c.stdin, append(append([]string{"explain"}, c.args...), "--json")...)
			var got explanation
			r.decode(t, 0, &got)
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if c.stdin != "" && strings.Contains(r.out+r.err, c.stdin) {
				t.Errorf("the credential is in the output: %+v", r)
			}
		})
	}
	r := s.ask("", "explain", "http://x/files?path=a", "--sandbox", s.sandbox, "-H", "Accept: */*")
	if r.code != 1 || !strings.Contains(r.out, "stops") || !strings.Contains(r.out, "refused: ") || !strings.Contains(r.out, "the client is told: 401 ") {
		t.Errorf("a call without a credential: %+v", r)
	}
	if r := s.ask("", "explain", s.sandbox); r.code != 0 || !strings.HasPrefix(r.out, "STEP        OUTCOME  RESULT\n") || !strings.Contains(r.out, "sent to:\n") || !strings.Contains(r.out, "only     proxy") {
		t.Errorf("%+v", r)
	}
	r = s.ask("", "explain", "http://x/sandboxes", "-X", "OPTIONS", "-H", "Origin: http://a", "-H", "Access-Control-Request-Method: GET")
	if r.code != 0 || !strings.Contains(r.out, "\nanswered by the gateway itself\nthe client is told: 204 ") || strings.Contains(r.out, "refused") {
		t.Errorf("a preflight: %+v", r)
	}
	for _, header := range []string{"X-API-Key: " + s.key, "authorization: Bearer " + s.key, s.key} {
		if r := s.ask("", "explain", s.sandbox, "-H", header); r.code != 2 || strings.Contains(r.out+r.err, s.key) {
			t.Errorf("a credential as an argument: %+v", r)
		}
	}
	if r := s.ask("", "explain", "http://x/files?path=a&signature=v1_x"); r.code != 2 || !strings.Contains(r.err, "--as-owner") {
		t.Errorf("a signed URL: %+v", r)
	}
}

func TestStreamsAreListedAndEnded(t *testing.T) {
	s := start(t)
	type listed struct {
		Total   int
		Streams []struct {
			ID        string
			SandboxID string `json:"sandbox_id"`
			Operation string
		}
	}
	for name, args := range map[string]func(id string) []string{
		"one":           func(id string) []string { return []string{id} },
		"of a sandbox":  func(string) []string { return []string{"--sandbox", s.sandbox} },
		"of a cluster":  func(string) []string { return []string{"--cluster", "only"} },
		"of a sandbox!": func(string) []string { return []string{"--sandbox", s.sandbox, "--json"} },
	} {
		t.Run(name, func(t *testing.T) {
			body := s.stream()
			var list listed
			s.ask("", "streams", "list", "--sandbox", s.sandbox, "--json").decode(t, 0, &list)
			if list.Total != 1 || list.Streams[0].SandboxID != s.sandbox || list.Streams[0].Operation != "process.Process/Start" {
				t.Fatalf("%+v", list)
			}
			if r := s.ask("", "streams", "list"); r.code != 0 || !strings.HasPrefix(r.out, "STREAM ") || !strings.Contains(r.out, s.sandbox) {
				t.Errorf("%+v", r)
			}
			r := s.ask("", append([]string{"streams", "end"}, args(list.Streams[0].ID)...)...)
			if r.code != 0 || r.out != "1 ended\n" && r.out != `{"ended":1}`+"\n" {
				t.Errorf("%+v", r)
			}
			end, err := io.ReadAll(body)
			if err != nil || !bytes.Contains(end, []byte(`"aborted"`)) {
				t.Errorf("the stream ended with %q, %v", end, err)
			}
		})
	}
	if r := s.ask("", "streams", "end"); r.code != 2 || !strings.Contains(r.err, "say which") {
		t.Errorf("%+v", r)
	}
	if r := s.ask("", "streams", "end", "999999"); r.code != 2 || !strings.Contains(r.err, "no such stream") {
		t.Errorf("%+v", r)
	}
}

func TestASandboxAndAClusterAreTakenOutOfServiceAndBack(t *testing.T) {
	s := start(t)
	for _, args := range [][]string{{"sandbox", s.sandbox}, {"cluster", "only", "--scope", "all"}} {
		if r := s.ask("", append([]string{"drain"}, args...)...); r.code != 0 || !strings.HasPrefix(r.out, "out of service (all), ") {
			t.Errorf("%v: %+v", args, r)
		}
		if r := s.ask("", "drain", "list"); r.code != 0 || !strings.Contains(r.out, args[0]+"  ") || !strings.Contains(r.out, args[1]) {
			t.Errorf("%v: %+v", args, r)
		}
		if r := s.ask("", "explain", s.sandbox); r.code != 1 || !strings.Contains(r.out, "refused: drain") {
			t.Errorf("%v: %+v", args, r)
		}
		if r := s.ask("", "drain", args[0], args[1], "--undo"); r.code != 0 || r.out != "in service again\n" {
			t.Errorf("%v: %+v", args, r)
		}
		if r := s.ask("", "explain", s.sandbox); r.code != 0 {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
