package handlers

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// FuzzServe: whatever somebody sends who has alice's key and token, and whatever
// ROCK answers, nothing panics, bob's sandbox is asked for its health at most, and
// no credential and no note of an owner goes where it does not belong.
func FuzzServe(f *testing.F) {
	const head = "Host: h\r\nX-Api-Key: " + alice + "\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\n"
	for _, line := range []string{
		"GET /health", "POST /process.Process/Start", "GET /files?path=/a&signature=v1_x", "GET /sandboxes/bobs", "DELETE /sandboxes/alices",
		"GET /v2/sandboxes?metadata=a%3Db", "POST /v2/sandboxes", "POST /sandboxes/alices/connect", "OPTIONS /files",
	} {
		for _, id := range []string{"alices", "bobs"} {
			for _, answer := range []string{`[{"sandboxID":"bobs"},{"sandboxID":"alices","metadata":{}}]`, `{"sandboxID":"alices"}`} {
				f.Add([]byte(line+" HTTP/1.1\r\n"+strings.Replace(head, "%s", id, 1)+"Content-Length: 2\r\n\r\n{}"), true, uint8(0), []byte(answer))
				f.Add([]byte(line+" HTTP/1.1\r\n"+strings.Replace(head, "%s", id, 1)+"Content-Type: application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), true, uint8(1), []byte(answer))
			}
		}
	}
	for _, host := range []string{"49983-alices.box.test", "49983-bobs.box.test", "3000-bobs.box.test", "api.box.test", "49983-alices.evil.test"} {
		f.Add([]byte("GET /files?path=/a HTTP/1.1\r\nHost: "+host+"\r\n\r\n"), true, uint8(0), []byte("{}"))
		f.Add([]byte("POST /process.Process/Start HTTP/1.1\r\nHost: "+host+"\r\nE2b-Sandbox-Id: alices\r\nContent-Length: 2\r\n\r\n{}"), true, uint8(0), []byte("{}"))
	}
	statuses := []int{200, 201, 204, 301, 400, 404, 500, 502, 503, 101, 999}
	f.Fuzz(func(t *testing.T, raw []byte, token bool, status uint8, answer []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			d.gateway.hosts = routing.NewHosts([]routing.Domain{{Name: "box.test"}})
			note := noted("bob", bob).Metadata()
			d.rock = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
				w.WriteHeader(max(200, statuses[int(status)%len(statuses)]))
				w.Write(bytes.ReplaceAll(answer, []byte("bobs"), []byte(`bobs","metadata":{"e2b-gateway/owner":"`+note+`"},"x":"`)))
			}
			if token && len(r.Header[auth.HeaderAccessToken]) == 0 {
				r.Header.Set(auth.HeaderAccessToken, d.tokens.Mint(auth.AccessToken, "alices", "alice"))
			}
			r.RemoteAddr = "192.0.2.1:1"
			w := httptest.NewRecorder()
			func() {
				defer func() {
					if p := recover(); p != nil && p != http.ErrAbortHandler {
						panic(p)
					}
				}()
				d.gateway.Serve(w, r, Both, Stranger, new(Outcome))
			}()
			for _, sent := range d.took() {
				path := sent.URL.Path + sent.URL.Opaque
				about := sent.Header.Get("E2b-Sandbox-Id")
				op := routing.Classify(sent.Method, r.URL.Path)
				if op.Plane == routing.DataPlane && about != "alices" && !(op.Name == healthCall && (sent.Method == "GET" || sent.Method == "HEAD")) ||
					op.Plane == routing.ControlPlane && strings.Contains(path, "bobs") || op.Plane == routing.NoPlane {
					t.Errorf("%q reached ROCK as %s %s about %q", raw, sent.Method, path, about)
				}
				for name, values := range sent.Header {
					if strings.Contains(strings.Join(values, ","), "e2ba_") || name == auth.HeaderAPIKey {
						t.Errorf("%q: a credential reached ROCK in %s", raw, name)
					}
				}
			}
			if strings.Contains(w.Body.String(), routing.MetadataPrefix) && !bytes.Contains(raw, []byte(routing.MetadataPrefix)) && !bytes.Contains(answer, []byte(routing.MetadataPrefix)) && routing.Classify(r.Method, r.URL.Path).Plane == routing.ControlPlane {
				t.Errorf("%q is answered with the note of an owner: %s", raw, w.Body)
			}
		})
	})
}
