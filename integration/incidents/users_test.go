package incidents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
)

// answer is what a call came to. Status is 0 when there was none.
type answer struct {
	status int
	body   string
}

// call makes one request. Its answer is the user's business, not the test's.
func (w *world) call(method, path, body string, header http.Header) answer {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = header
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return answer{0, err.Error()}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{0, err.Error()}
	}
	return answer{resp.StatusCode, string(b)}
}

// header is what the SDK sends for a sandbox.
func (s sandbox) header(port int) http.Header {
	return http.Header{"E2b-Sandbox-Id": {s.id}, "E2b-Sandbox-Port": {fmt.Sprint(port)}, "X-Access-Token": {s.token}}
}

// create makes a sandbox that must come to be, with a file in it.
func (w *world) create(id string) {
	w.t.Helper()
	a := w.call("POST", "/sandboxes", fmt.Sprintf(`{"templateID":"base","metadata":{"ap-sandbox-id":%q},"timeout":600}`, id), http.Header{"X-Api-Key": {apiKey}})
	var made struct{ EnvdAccessToken string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != http.StatusCreated {
		w.t.Fatalf("create: %d %s", a.status, a.body)
	}
	s := sandbox{id, made.EnvdAccessToken}
	header := s.header(49983)
	header.Set("Content-Type", "multipart/form-data; boundary=boundary")
	part := "--boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"notes\"\r\n\r\nnotes\r\n--boundary--\r\n"
	if a := w.call("POST", "/files?username=user&path="+notes, part, header); a.status != http.StatusOK {
		w.t.Fatalf("upload: %d %s", a.status, a.body)
	}
	w.sandboxes = append(w.sandboxes, s)
}

// notes is a file in every sandbox.
const notes = "/home/user/notes"

// round is what all users do in a moment: a call to each sandbox, a question about
// it on the control plane, and a download by a link that is good for a minute.
func (w *world) round() {
	for _, s := range w.sandboxes {
		w.call("POST", "/filesystem.Filesystem/ListDir", `{"path":"/"}`, s.header(49983))
	}
	s := w.sandboxes[2]
	w.call("GET", "/sandboxes/"+s.id, "", http.Header{"X-Api-Key": {apiKey}})
	w.call("GET", "/files?"+w.link(s, notes), "", http.Header{"E2b-Sandbox-Id": {s.id}, "E2b-Sandbox-Port": {"49983"}})
}

// link is the query of a signed URL, as the SDK makes it by its own clock.
func (w *world) link(s sandbox, path string) string {
	expires := fmt.Sprint(w.now().Add(time.Minute).Unix())
	sum := sha256.Sum256([]byte(path + ":read:user:" + s.token + ":" + expires))
	return url.Values{"path": {path}, "username": {"user"}, "signature": {"v1_" + base64.RawStdEncoding.EncodeToString(sum[:])}, "signature_expiration": {expires}}.Encode()
}

// stream is a command that goes on.
type stream struct {
	ended chan struct{} // closed when it is over
	close context.CancelFunc
}

// open starts a command that says nothing for a minute.
func (w *world) open(s sandbox) *stream {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	st := &stream{ended: make(chan struct{}), close: cancel}
	w.t.Cleanup(func() { cancel(); <-st.ended })
	message := envelope.Append(nil, 0, []byte(`{"process":{"cmd":"/bin/bash","args":["-l","-c","sleep 60"]}}`))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+"/process.Process/Start", bytes.NewReader(message))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = s.header(49983)
	r.Header.Set("Content-Type", "application/connect+json")
	r.Header.Set("Connect-Protocol-Version", "1")
	r.Header.Set("Connect-Timeout-Ms", "80000")
	resp, err := w.client.Do(r)
	if err != nil {
		close(st.ended)
		return st
	}
	begun := make(chan struct{})
	go func() {
		defer close(st.ended)
		defer resp.Body.Close()
		_, _ = io.ReadFull(resp.Body, make([]byte, envelope.PrefixSize))
		close(begun)
		_, _ = io.Copy(io.Discard, resp.Body)
	}()
	<-begun
	return st
}
