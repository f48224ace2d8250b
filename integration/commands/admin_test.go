package commands

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

func TestChangesAreShownAsTheyCome(t *testing.T) {
	s := start(t)
	cmd := exec.CommandContext(t.Context(), harness.Build(t), "routes", "watch", "--address", strings.TrimPrefix(s.AdminURL(), "http://"))
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	await := func(want string) {
		t.Helper()
		patience := time.After(30 * time.Second)
		for {
			select {
			case line, ok := <-lines:
				if !ok {
					t.Fatalf("it ended before %q", want)
				}
				if strings.HasSuffix(line, "  "+want) {
					return
				}
			case <-patience:
				t.Fatalf("no line %q", want)
			}
		}
	}
	await("watching")
	s.redis.Do("SET", "alive:changed", "{}")
	await("changed")
}

// answering is an admin endpoint that is none of a gateway's.
func answering(t *testing.T, network, address string, h http.HandlerFunc) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
}

func TestWithoutAGatewayTheCommandsSayHowToFindIt(t *testing.T) {
	for _, args := range [][]string{
		{"routes", "get", "a"}, {"routes", "list"}, {"routes", "watch"}, {"routes", "forget", "a"}, {"streams", "list"}, {"streams", "end", "1"},
		{"explain", "a"}, {"drain", "list"}, {"drain", "sandbox", "a"}, {"drain", "cluster", "a"},
	} {
		r := run(t, "", nil, append(args, "--address", "127.0.0.1:1")...)
		if r.code != 2 || r.out != "" || !strings.Contains(r.err, "no gateway answers at the admin endpoint 127.0.0.1:1") || !strings.Contains(r.err, "--address or --config") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestTheAdminEndpointIsThatOfTheConfig(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	answering(t, "unix", socket, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"total":7,"routes":[]}`))
	})
	for name, config := range map[string]string{
		"a socket":           "{\n\tadmin unix/" + socket + "\n}\n",
		"and who may use it": "{\n\tadmin \"unix/" + socket + "|0600\"\n}\n",
	} {
		r := run(t, "", nil, "routes", "list", "--json", "--config", writeFile(t, "Caddyfile", config))
		if r.code != 0 || !strings.Contains(r.out, `"total":7`) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestAnswersThatAreNoGatewaysAreToldAsThat(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"another Caddy": {http.NotFound, "is of a Caddy without this gateway"},
		"no JSON":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, "cannot be read"},
		"an error":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":"the registry is shy"}`, 500) }, "the registry is shy"},
		"a bare status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, "answered with status 502"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			defer server.Close()
			r := run(t, "", nil, "routes", "get", "a", "--address", server.Listener.Addr().String())
			if r.code != 2 || !strings.Contains(r.err, c.want) || r.out != "" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Owners and addresses are written by others than the operator.
func TestATerminalIsNotGivenWhatItWouldObey(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"total":1,"routes":[{"sandbox_id":"a","cluster":"b","owner":"\u001b[2J\u202e\n","age_seconds":1}]}`))
	}))
	defer server.Close()
	r := run(t, "", nil, "routes", "list", "--address", server.Listener.Addr().String())
	if r.code != 0 || strings.ContainsAny(r.out, "\x1b\u202e") || strings.Count(r.out, "\n") != 2 || !strings.Contains(r.out, `"\x1b[2J\u202e\n"`) {
		t.Errorf("%+q", r.out)
	}
}

func TestPortsAreShownInTheirOrder(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"sandbox_id":"a","answer":"here","lookup":"cache","ports":{"9000":5,"22":4,"8080":3,"3000":2,"49983":1}}`))
	}))
	defer server.Close()
	want := "sandbox     a\nanswer      here\nknown from  cache\nport 22     4\nport 3000   2\nport 8080   3\nport 9000   5\nport 49983  1\n"
	if r := run(t, "", nil, "routes", "get", "a", "--address", server.Listener.Addr().String()); r.code != 0 || r.out != want {
		t.Errorf("%+v", r)
	}
}

func TestCommandsThatReadAConfigAskForOneThatIsMissing(t *testing.T) {
	for _, args := range [][]string{{"doctor"}, {"keys", "check"}, {"tokens", "check"}} {
		if r := run(t, "e2b_00", nil, args...); r.code != 2 || r.out != "" || !strings.Contains(r.err, "--config") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
