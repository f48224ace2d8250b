package edge

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// site is a gateway that dials the sandboxes a and b, in a site with more in it than the
// handler. servers are options of Caddy's servers.
func site(t *testing.T, servers, lines string) *rig {
	t.Helper()
	u := newUpstream(t, answer200)
	config := strings.Replace(u.direct("127.0.0.1", "allow 127.0.0.0/8"), "keys off", "keys off\ndomain box.test", 1)
	_, port, _ := strings.Cut(u.address, ":")
	b := fmt.Sprintf("registry static {\nsandbox b {\nhost 127.0.0.1\nport 49983 %[1]s\nport 8080 %[1]s\n}", port)
	config = strings.Replace(config, "registry static {", b, 1)
	config = strings.Replace(config, "{\n\te2b {", "{\nservers {\n"+servers+"\n}\n\te2b {", 1)
	config = strings.Replace(config, ":8080 {\n\te2b\n}", ":8080 {\n"+lines+"\n}", 1)
	return &rig{u, inprocess.Start(t, config)}
}

// Field report J01: a handler in front of this one may change the path, and leaves the
// query as it came.
func TestASignatureOutlivesARewrite(t *testing.T) {
	g := site(t, "", "handle_path /gateway/* {\ne2b\n}\nhandle /old {\nrewrite * /files?{query}\ne2b\n}\n"+
		"handle {\nuri strip_prefix /api\ne2b\n}")
	for _, query := range []string{
		"path=%2Fa&signature=v1_ab%2Bcd%2Fef",
		"path=%2Fa%20b+c&signature=v1_ab+cd/ef&username=%c3%a9",
		"signature=v1_x&&path=/a%2fb&z",
	} {
		for path, want := range map[string]string{
			"/files": "/files", "/gateway/files": "/files", "/api/files": "/files", "/old": "/files",
		} {
			answer := g.raw(t, "GET "+path+"?"+query+" HTTP/1.1\r\n"+target+"Connection: close\r\n\r\n")
			if got := g.take(); status(answer) != "200" || !strings.HasPrefix(got, "GET "+want+"?"+query+" HTTP/1.1\r\n") {
				t.Errorf("%s?%s: %.80q, arrived as %.80q", path, query, answer, got)
			}
		}
	}
}

// Field report N05: whoever stands before the handler, each answer comes from the sandbox
// that was asked.
func TestParallelRequestsNeverMeet(t *testing.T) {
	check := newUpstream(t, "HTTP/1.1 200 OK\r\nX-Checked: yes\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	g := site(t, "", `route {
	forward_auth `+check.address+` {
		uri /check
		copy_headers X-Checked
	}
	@b host 8080-b.box.test
	handle @b {
		e2b
	}
	handle {
		route {
			e2b
		}
	}
}`)
	g.script = func(r *http.Request, c net.Conn) bool {
		said := r.Host + r.RequestURI + r.Header.Get("E2b-Sandbox-Id") + r.Header.Get("X-Checked")
		_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(said), said)
		return err == nil
	}
	client := g.Client()
	var all sync.WaitGroup
	for worker := range 20 {
		all.Go(func() {
			for n := range 50 {
				id := string("ab"[(worker+n)%2])
				r, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("%s/files?n=%d-%d", g.URL, worker, n), nil)
				if err != nil {
					t.Error(err)
					return
				}
				want := fmt.Sprintf("8080-%s.box.test/files?n=%d-%dyes", id, worker, n)
				if r.Host = "8080-" + id + ".box.test"; n%3 == 0 {
					r.Host, r.Header = "box.test", http.Header{"E2b-Sandbox-Id": {id}, "E2b-Sandbox-Port": {"49983"}}
					want = fmt.Sprintf("box.test/files?n=%d-%d%syes", worker, n, id)
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				if b, err := io.ReadAll(resp.Body); string(b) != want || err != nil {
					t.Errorf("%q, %v, want %q", b, err, want)
				}
				resp.Body.Close()
			}
		})
	}
	all.Wait()
}

// Field report N06: Caddy drops names with an underscore or a dot unless told otherwise,
// and nothing that is the gateway's own has such a name.
func TestAnAppMayBeGivenNamesWithUnderscores(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: 8080-a.box.test\r\nConnection: close\r\n" +
		"api_key: for-the-app\r\nx_user_id: forged\r\nlang_version: 3\r\n\r\n"
	for _, tc := range []struct {
		servers string
		want    bool
	}{{"", false}, {"expected_underscore_headers api_key x_user_id", true}} {
		t.Run(tc.servers, func(t *testing.T) {
			g := site(t, tc.servers, "e2b")
			answer := g.raw(t, request)
			got := strings.ToLower(g.take())
			if status(answer) != "200" || strings.Contains(got, "\r\napi_key: for-the-app\r\n") != tc.want ||
				strings.Contains(got, "forged") || strings.Contains(got, "lang_version") {
				t.Errorf("%.60q, arrived as %q", answer, got)
			}
		})
	}
}

// Field report N07: long headers pass up to a limit that is told of, and whoever has a
// lower one behind the gateway speaks for itself.
func TestLongHeadersPassOrAreRefusedInWords(t *testing.T) {
	g := site(t, "", "e2b")
	cookies := func(n int) string { return "Cookie: c=" + strings.Repeat("x", n) + "\r\n" }
	const app = "GET / HTTP/1.1\r\nHost: 8080-a.box.test\r\nConnection: close\r\n"
	if answer := g.raw(t, app+cookies(20<<10)+"\r\n"); status(answer) != "200" || !strings.Contains(g.take(), cookies(20<<10)) {
		t.Errorf("20 KiB: %q", answer)
	}
	list := "GET /v2/sandboxes?metadata=" + strings.Repeat("x", 30<<10) + "%3Dy HTTP/1.1\r\nHost: box.test\r\nConnection: close\r\n\r\n"
	const none = `{"status":"Success","result":{"items":[],"has_more":false}}`
	g.answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(none), none))
	if answer := g.raw(t, list); status(answer) != "200" || !strings.HasSuffix(answer, "\r\n\r\n[]") || g.take() == "" {
		t.Errorf("a filter of 30 KiB: %.300q", answer)
	}
	for name, request := range map[string]string{
		"an app": app + cookies(70<<10) + "\r\n", "envd": "GET /files HTTP/1.1\r\n" + target + "Connection: close\r\n" + cookies(70<<10) + "\r\n",
		"a list": strings.Replace(list, "x", strings.Repeat("x", 40<<10), 1),
	} {
		answer := g.raw(t, request)
		if got := g.take(); status(answer) != "431" || !strings.Contains(answer, `"code":431`) || got != "" {
			t.Errorf("%s: %.300q, %d bytes arrived", name, answer, len(got))
		}
	}
	g.answers("HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nown")
	if answer := g.raw(t, app+cookies(20<<10)+"\r\n"); status(answer) != "431" || !strings.HasSuffix(answer, "\r\n\r\nown") {
		t.Errorf("the app's own limit: %q", answer)
	}
}

// Field report N09: pages for errors are for the errors of others. Who puts encode in front
// has what asks for it compressed, and it unpacks to what it was.
func TestASitesErrorPagesReplaceNoAnswer(t *testing.T) {
	const page = "handle_errors {\nheader Content-Type text/html\nrespond \"<h1>{err.status_code}</h1>\"\n}"
	g := site(t, "", "encode gzip zstd\n"+page+"\ne2b")
	long := `{"detail":"` + strings.Repeat("x", 2000) + `"}`
	g.answers("HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(long), long))
	for name, tc := range map[string]struct{ request, status, body string }{
		"an app's error":  {"GET / HTTP/1.1\r\nHost: 8080-a.box.test\r\n", "500", long},
		"no such sandbox": {"GET /health HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: nobody\r\nE2b-Sandbox-Port: 49983\r\n", "502", `"code":502`},
		"a closed port":   {"GET / HTTP/1.1\r\nHost: 9999-a.box.test\r\n", "502", `"code":502`},
		"a bad target":    {"GET / HTTP/1.1\r\nHost: 22-a.box.test\r\n", "400", `"code":400`},
		"no such call":    {"GET /nothing HTTP/1.1\r\nHost: box.test\r\n", "404", `"code":404`},
	} {
		for _, encoding := range []string{"", "Accept-Encoding: gzip, zstd\r\n"} {
			answer := unpacked(t, g.raw(t, tc.request+encoding+"Connection: close\r\n\r\n"))
			if status(answer) != tc.status || !strings.Contains(answer, tc.body) || strings.Contains(answer, "<h1>") {
				t.Errorf("%s, %q: %.300q", name, encoding, answer)
			}
		}
	}
}

// unpacked is an answer as its client shows it.
func unpacked(t *testing.T, answer string) string {
	t.Helper()
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	if !strings.Contains(head, "\r\nContent-Encoding: gzip") {
		return answer
	}
	plain, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(plain)
	if err != nil {
		t.Error(err)
	}
	return head + "\r\n\r\n" + string(b)
}

// Field report M06: what a proxy says of a request's host or path leads nowhere, whether
// it is trusted or not.
func TestForwardedHeadersRouteNothing(t *testing.T) {
	for _, servers := range []string{"", "trusted_proxies static 127.0.0.0/8"} {
		t.Run(servers, func(t *testing.T) {
			g := site(t, servers, "e2b")
			answer := g.raw(t, "GET /x HTTP/1.1\r\nHost: 8080-a.box.test\r\nX-Forwarded-Host: 8080-b.box.test\r\n"+
				"X-Forwarded-Uri: /init\r\nX-Original-Url: /init\r\nX-Rewrite-Url: /init\r\n"+
				"Forwarded: host=8080-b.box.test\r\nX-Forwarded-Port: 49983\r\nConnection: close\r\n\r\n")
			if got := g.take(); status(answer) != "200" || !strings.HasPrefix(got, "GET /x HTTP/1.1\r\nHost: 8080-a.box.test\r\n") {
				t.Errorf("%q, arrived as %q", answer, got)
			}
		})
	}
}
