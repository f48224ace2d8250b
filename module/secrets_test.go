package module_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

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

func TestNoCredentialReachesALog(t *testing.T) {
	const canary = "canary-do-not-log"
	fine := newRock(t, noContent)
	cut := newRock(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("ten bytes."))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for name, rock := range map[string]string{"fine": fine, "cut": cut, "dead": "http://127.0.0.1:1"} {
		for _, logging := range []string{
			"", // as it comes: no access log
			"log {\n\t\timport e2b_log_format\n\t}",
		} {
			t.Run(name, func(t *testing.T) {
				global := "log {\n\t\tlevel DEBUG\n\t\timport e2b_log_format\n\t}"
				if logging == "" {
					global = "debug"
				}
				g := harness.Start(t, logFormat(t)+"{\n\t"+global+"\n"+clusterOf(rock, staticSandbox)+"}\n:8080 {\n\t"+logging+"\n\te2b\n}\n")
				for _, path := range []string{"/health", "/files?path=x&signature=" + canary, "/sandboxes/known", "/init", "/nothing"} {
					for _, sandbox := range []string{"known", "unknown", "not valid!"} {
						r := ask(t.Context(), g.URL, sandbox, path)
						for _, header := range []string{"X-Access-Token", "X-Api-Key", "E2b-Traffic-Access-Token", "Authorization", "Cookie"} {
							r.Header.Set(header, canary)
						}
						if resp, err := g.Client().Do(r); err == nil {
							resp.Body.Close()
						}
					}
				}
				g.Stop()
				logs := g.Logs()
				if strings.Contains(logs, canary) {
					t.Errorf("a credential was logged:\n%s", logs)
				}
				if logging != "" && !strings.Contains(logs, `"E2b-Sandbox-Id":["known"]`) {
					t.Errorf("no request headers in the log, so it proves nothing:\n%s", logs)
				}
			})
		}
	}
}
