package handlers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// order notes what happens first.
type order struct {
	http.ResponseWriter
	io.Reader
	seen []string
}

func (o *order) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	if err == io.EOF {
		o.seen = append(o.seen, "body")
	}
	return n, err
}

func (o *order) Close() error { return nil }

func (o *order) WriteHeader(status int) {
	o.seen = append(o.seen, "answer")
	o.ResponseWriter.WriteHeader(status)
}

// net/http resets an HTTP/2 stream whose answer overtakes its request, and
// clients lose the answer.
func TestARefusalOverHTTP2WaitsForAShortBody(t *testing.T) {
	cache := routing.NewCache(&estate{}, routing.CacheOptions{})
	defer cache.Close()
	g := New(Options{Routes: cache, Access: &Access{Keys: ring(nil), Tokens: tokens(t, "a")}})
	defer g.Close()
	for name, tc := range map[string]struct {
		path, contentType string
		proto, length     int
		expect, want      string
	}{
		"control":         {"/sandboxes", unary, 2, 4, "", "body answer"},
		"unary":           {stat, unary, 2, 4, "", "body answer"},
		"stream":          {start, stream, 2, 4, "", "body answer"},
		"unknown length":  {"/files?path=a", "", 2, -1, "", "body answer"},
		"no call":         {"/nowhere", "", 2, 4, "", "body answer"},
		"long":            {"/files?path=a", "", 2, maxAwaited + 1, "", "answer"},
		"HTTP/1.1":        {stat, unary, 1, 4, "", "answer"},
		"asks beforehand": {stat, unary, 2, 4, "100-continue", "answer"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &order{ResponseWriter: httptest.NewRecorder(), Reader: strings.NewReader("body")}
			r := httptest.NewRequest("POST", tc.path, nil)
			r.Body, r.ContentLength, r.ProtoMajor = o, int64(tc.length), tc.proto
			r.Header = http.Header{"E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}, "Content-Type": {tc.contentType}, auth.HeaderAPIKey: {"wrong"}}
			if tc.expect != "" {
				r.Header.Set("Expect", tc.expect)
			}
			g.ServeHTTP(o, r)
			if got := strings.Join(o.seen, " "); got != tc.want {
				t.Errorf("%s", got)
			}
		})
	}
}
