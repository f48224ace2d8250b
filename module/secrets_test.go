package module_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

const canary = "canary-do-not-log"

// credentials are the headers whose values must be in no log, also in the
// spelling that Caddy refuses.
var credentials = []string{
	"X-Access-Token", "X-Api-Key", "E2b-Traffic-Access-Token", "Authorization", "Proxy-Authorization", "Cookie",
	"X-Key", "Xrl-Authorization", "X_Api_Key", "X.Access.Token",
}

// logFormat is the snippet that operators are given.
func logFormat(t *testing.T) string {
	t.Helper()
	example, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(example), "\n(e2b_log_format) {")
	snippet, _, ok2 := strings.Cut(rest, "\n}\n")
	if !ok || !ok2 {
		t.Fatal("Caddyfile.example has no snippet e2b_log_format")
	}
	return "(e2b_log_format) {" + snippet + "\n}\n"
}

// sendCredentials makes requests that end in all kinds of ways, each with every
// credential there is.
func sendCredentials(t *testing.T, g *harness.Gateway) {
	t.Helper()
	for _, path := range []string{"/health", "/files?path=x&signature=" + canary, "/files?path=x&sign%61ture=" + canary, "/sandboxes/known", "/init", "/nothing"} {
		for _, sandbox := range []string{"known", "unknown", "not valid!"} {
			r := ask(t.Context(), g.URL, sandbox, path)
			for _, header := range credentials {
				r.Header[header] = []string{canary}
			}
			r.Header.Set("Referer", "http://a.test/files?signature="+canary)
			if resp, err := g.Client().Do(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
	}
}

// Field report M17.
func TestNoCredentialReachesALog(t *testing.T) {
	rocks := map[string]string{
		"fine": newRock(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Set-Cookie", "session="+canary)
			w.Header().Set("X-Access-Token", canary)
			w.WriteHeader(http.StatusNoContent)
		}),
		"cut": newRock(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("ten bytes."))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}),
		"dead": "http://127.0.0.1:1",
	}
	for name, tc := range map[string]struct {
		site   string // the options of the site
		logged string // what shows that requests were logged at all
	}{
		"no access log":        {"e2b", `"logger":"http.handlers.e2b"`},
		"access log":           {"log\n\te2b", `"X-Access-Token":["REDACTED"]`},
		"access log by name":   {"log named {\n\t\tlevel DEBUG\n\t}\n\te2b", `"logger":"http.log.access.named"`},
		"a handler that fails": {"log\n\terror /health 503\n\te2b", `"logger":"http.log.error"`},
		"a handler that refuses": {"log\n\tbasic_auth /files {\n\t\tuser " +
			"$2a$04$CUIsNoKCZpnSFRDKvu5QguRLCmmBw4rIGV.aRwaiOI2Bof57xdh26\n\t}\n\te2b", `"status":401`},
		"another site of the server": {"log\n\te2b /health\n\trespond gone 410", `"status":410`},
		"reverse_proxy":              {"log\n\treverse_proxy {rock} {\n\t\ttransport e2b\n\t}", `"logger":"http.handlers.reverse_proxy"`},
	} {
		for rock, url := range rocks {
			t.Run(name+"/"+rock, func(t *testing.T) {
				site := strings.ReplaceAll(tc.site, "{rock}", url)
				g := inprocess.Start(t, "{\n\tdebug\n"+clusterOf(url, staticSandbox)+"}\n:8080 {\n\t"+site+"\n}\n")
				sendCredentials(t, g)
				g.Stop()
				logs := g.Logs()
				for line := range strings.Lines(logs) {
					if strings.Contains(line, canary) {
						t.Errorf("a credential was logged: %s", line)
					}
				}
				if !strings.Contains(logs, tc.logged) {
					t.Errorf("%q is not in the log, so it proves nothing:\n%s", tc.logged, logs)
				}
			})
		}
	}
}

// The snippet is for handlers that log requests in their own name.
func TestTheLogFormatHidesCredentialsFromOtherHandlers(t *testing.T) {
	rock := newRock(t, noContent)
	g := inprocess.Start(t, logFormat(t)+"{\n\tlog {\n\t\tlevel DEBUG\n\t\timport e2b_log_format\n\t}\n"+clusterOf(rock, staticSandbox)+
		"}\n:8080 {\n\turi path_regexp /+ /\n\turi replace known known2\n\treverse_proxy "+rock+"\n}\n")
	for _, path := range []string{"/known", "/files?path=known&signature=" + canary} {
		r := ask(t.Context(), g.URL, "known", path)
		for _, header := range credentials[:6] {
			r.Header.Set(header, canary)
		}
		if resp, err := g.Client().Do(r); err == nil {
			resp.Body.Close()
		}
	}
	g.Stop()
	logs := g.Logs()
	for line := range strings.Lines(logs) {
		if strings.Contains(line, canary) {
			t.Errorf("a credential was logged: %s", line)
		}
	}
	for _, want := range []string{"rewrote request", "upstream roundtrip"} {
		if !strings.Contains(logs, want) {
			t.Errorf("%q is not in the log, so it proves nothing:\n%s", want, logs)
		}
	}
}

// log_credentials shows what Caddy would hide, and still nothing of ours.
func TestLoggingCredentialsShowsNoneOfE2Bs(t *testing.T) {
	g := inprocess.Start(t, "{\n\tservers {\n\t\tlog_credentials\n\t}\n"+clusterOf(newRock(t, noContent), staticSandbox)+"}\n:8080 {\n\tlog\n\te2b\n}\n")
	r := ask(t.Context(), g.URL, "known", "/health")
	for _, header := range credentials {
		r.Header.Set(header, canary)
	}
	r.Header.Set("Cookie", "shown")
	resp, err := g.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	g.Stop()
	logs := g.Logs()
	if strings.Contains(logs, canary) {
		t.Errorf("a credential was logged:\n%s", logs)
	}
	if !strings.Contains(logs, `"Cookie":["shown"]`) {
		t.Errorf("the option was not honoured, so this proves nothing:\n%s", logs)
	}
}

// What else an operator asks of the access log is as it was.
func TestTheAccessLogStaysCaddys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access")
	g := inprocess.Start(t, "{\n"+clusterOf(newRock(t, noContent), staticSandbox)+`}
:8080 {
	log a {
		output file `+file+`
	}
	log_append note {http.e2b.operation}
	log_skip /skipped
	log_name /health a
	e2b
}
`)
	for _, path := range []string{"/health", "/skipped"} {
		resp, err := g.Client().Do(ask(t.Context(), g.URL, "known", path))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	g.Stop()
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	line := string(written)
	if strings.Count(line, "\n") != 1 {
		t.Fatalf("not one line:\n%s", line)
	}
	for _, want := range []string{
		`"logger":"http.log.access.a"`, `"msg":"handled request"`, `"level":"info"`, `"note":"health"`, `"sandbox_id":"known"`, `"status":204`,
		`"request":{"remote_ip":"127.0.0.1"`, `"client_ip":"127.0.0.1"`, `"resp_headers":{`, `"bytes_read":0`, `"duration":`, `"user_id":""`,
		`"E2b-Sandbox-Id":["known"]`, `"uri":"/health"`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in the line %s", want, line)
		}
	}
}
