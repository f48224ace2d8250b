package control_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const running = `{"sandboxID":"sbx-1","metadata":{"job":"7","e2b.agents.kruise.io/sandbox-ip":"10.20.30.41"},"state":"running",
 "clientID":"rock","templateID":"python:3.11","envdVersion":"0.3.0","cpuCount":2,"memoryMB":8192,"diskSizeMB":51200,
 "startedAt":"2026-08-21T14:12:44+08:00","endAt":"2026-08-21T14:42:44+08:00"}`

// admin answers every request with status and body.
func admin(t *testing.T, status int, body string) *control.Registry {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" || r.URL.Path != "/sandboxes/sbx-1" || r.URL.RawQuery != "" {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return registry(t, control.Config{Addresses: []string{s.URL}})
}

func registry(t *testing.T, cfg control.Config) *control.Registry {
	t.Helper()
	r, err := control.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestLookup(t *testing.T) {
	route, err := admin(t, 200, running).Lookup(t.Context(), "sbx-1")
	if err != nil {
		t.Fatal(err)
	}
	if route.SandboxID != "sbx-1" || route.State != routing.StateRunning || route.Host != netip.MustParseAddr("10.20.30.41") ||
		route.Lifecycle == "" || route.Problem != "" || route.Ports != nil {
		t.Fatalf("got %+v", route)
	}
}

// Field reports F09 and F12.
func TestLookupKeepsTheThreeAnswersApart(t *testing.T) {
	change := func(old, new string) string { return strings.Replace(running, old, new, 1) }
	for name, test := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"running":               {200, running, nil},
		"paused":                {200, change(`"running"`, `"paused"`), nil},
		"no metadata":           {200, `{"sandboxID":"sbx-1","state":"running"}`, nil},
		"odd metadata":          {200, `{"sandboxID":"sbx-1","state":"running","metadata":{"a":1,"e2b.agents.kruise.io/sandbox-ip":7}}`, nil},
		"gone":                  {404, `{"code":404,"message":"Sandbox sbx-1 not found"}`, routing.ErrGone},
		"FastAPI's 404":         {404, `{"detail":"Not Found"}`, routing.ErrUnavailable},
		"empty 404":             {404, ``, routing.ErrUnavailable},
		"HTML 404":              {404, `<html>404</html>`, routing.ErrUnavailable},
		"404 of another code":   {404, `{"code":500,"message":"x"}`, routing.ErrUnavailable},
		"404 without a message": {404, `{"code":404}`, routing.ErrUnavailable},
		"404 with a text code":  {404, `{"code":"404","message":"x"}`, routing.ErrUnavailable},
		"404 in an array":       {404, `[{"code":404,"message":"x"}]`, routing.ErrUnavailable},
		"gone, but 200":         {200, `{"code":404,"message":"not found"}`, routing.ErrMalformed},
		"failure envelope":      {200, `{"status":"Failed","message":"x","error":"not started","result":null}`, routing.ErrMalformed},
		"another sandbox":       {200, change("sbx-1", "sbx-2"), routing.ErrMalformed},
		"unknown state":         {200, change(`"running"`, `"hibernating"`), routing.ErrMalformed},
		"no state":              {200, `{"sandboxID":"sbx-1"}`, routing.ErrMalformed},
		"not JSON":              {200, `hello, ROCK!`, routing.ErrMalformed},
		"an array":              {200, `[]`, routing.ErrMalformed},
		"empty":                 {200, ``, routing.ErrMalformed},
		"endless":               {200, running + strings.Repeat(" ", 2<<20), routing.ErrMalformed},
		"created":               {201, running, routing.ErrUnavailable},
		"redirect":              {302, running, routing.ErrUnavailable},
		"unauthorized":          {401, `{"code":401,"message":"x"}`, routing.ErrUnavailable},
		"not allowed":           {405, `{"detail":"Method Not Allowed"}`, routing.ErrUnavailable},
		"limited":               {429, ``, routing.ErrUnavailable},
		"traceback":             {500, `Traceback (most recent call last)`, routing.ErrMalformed},
		"bad gateway":           {502, ``, routing.ErrUnavailable},
		"unavailable":           {503, `{"code":404,"message":"x"}`, routing.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			route, err := admin(t, test.status, test.body).Lookup(t.Context(), "sbx-1")
			if !errors.Is(err, test.want) || (route == nil) == (err == nil) || errors.Is(err, routing.ErrGone) != (test.want == routing.ErrGone) {
				t.Fatalf("got %+v, %v; want %v", route, err, test.want)
			}
		})
	}
}

// Field report M13.
func TestLookupTakesNoAddressButAnIP(t *testing.T) {
	for host, problem := range map[string]bool{
		"": false, "10.0.0.1": false, "fd00::1": false, "ray-worker-7": true, "10.0.0.1:22": true, "fe80::1%eth0": true,
	} {
		route, err := admin(t, 200, strings.Replace(running, "10.20.30.41", host, 1)).Lookup(t.Context(), "sbx-1")
		if err != nil || (route.Problem != "") != problem || route.Host.IsValid() != (host != "" && !problem) {
			t.Errorf("%q: %+v, %v", host, route, err)
		}
	}
}

// Field report F05.
func TestLifecycleFollowsTheStartAndTheAddress(t *testing.T) {
	life := func(old, new string) string {
		route, err := admin(t, 200, strings.Replace(running, old, new, 1)).Lookup(t.Context(), "sbx-1")
		if err != nil {
			t.Fatal(err)
		}
		return route.Lifecycle
	}
	base := life("", "")
	if life("endAt", "endAt2") != base || life(`"job":"7"`, `"job":"8"`) != base {
		t.Error("it changes with something else")
	}
	if life("14:12:44", "14:12:45") == base || life("10.20.30.41", "10.20.30.42") == base {
		t.Error("it does not change")
	}
}

func TestLookupSendsTheHeader(t *testing.T) {
	var got http.Header
	r := registry(t, control.Config{
		Client: doer(func(r *http.Request) (*http.Response, error) {
			got = r.Header
			if r.URL.String() != "/sandboxes/sbx-1" || r.URL.Host != "" {
				t.Errorf("asked for %v", r.URL)
			}
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(running))}, nil
		}),
		Header: func(h http.Header) { h.Set("X-API-Key", "k") },
	})
	if _, err := r.Lookup(t.Context(), "sbx-1"); err != nil {
		t.Fatal(err)
	}
	if got.Get("X-API-Key") != "k" || got.Get("Accept") != "application/json" {
		t.Fatalf("sent %v", got)
	}
}

type doer func(*http.Request) (*http.Response, error)

func (f doer) Do(r *http.Request) (*http.Response, error) { return f(r) }

func TestLookupOfAnInvalidIDAsksNothing(t *testing.T) {
	r := registry(t, control.Config{Client: doer(func(r *http.Request) (*http.Response, error) {
		t.Errorf("asked for %v", r.URL)
		return nil, io.EOF
	})})
	for _, id := range []string{"", "..", "../x", "a/b", "a?b", "%2e%2e"} {
		if _, err := r.Lookup(t.Context(), id); !errors.Is(err, routing.ErrInvalidSandboxID) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestLookupTakesTheNextAddress(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	alive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/sandboxes/sbx-1" {
			t.Errorf("asked for %v", r.URL)
		}
		io.WriteString(w, running)
	}))
	defer alive.Close()
	r := registry(t, control.Config{Addresses: []string{"http://" + dead.Addr().String(), alive.URL + "/base/"}})
	if _, err := r.Lookup(t.Context(), "sbx-1"); err != nil {
		t.Fatal(err)
	}
	r = registry(t, control.Config{Addresses: []string{"http://" + dead.Addr().String()}})
	if _, err := r.Lookup(t.Context(), "sbx-1"); !errors.Is(err, routing.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
}

// Field report G08.
func TestLookupIsBounded(t *testing.T) {
	for name, part := range map[string]string{"no answer": "", "half an answer": running[:20]} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if part != "" {
					io.WriteString(w, part)
					http.NewResponseController(w).Flush()
				}
				<-hold
			}))
			t.Cleanup(s.Close)
			t.Cleanup(func() { close(hold) })
			r := registry(t, control.Config{Addresses: []string{s.URL}, Timeout: 100 * time.Millisecond})
			start := time.Now()
			if _, err := r.Lookup(context.Background(), "sbx-1"); !errors.Is(err, routing.ErrUnavailable) || time.Since(start) > time.Second {
				t.Fatalf("%v after %v", err, time.Since(start))
			}
		})
	}
}

func TestNewRefusesABadConfig(t *testing.T) {
	d := doer(nil)
	for _, cfg := range []control.Config{
		{}, {Addresses: []string{"rock-admin:8080"}}, {Addresses: []string{"ftp://x"}}, {Addresses: []string{"http://"}},
		{Addresses: []string{"http://u:p@x"}}, {Addresses: []string{"http://x?y"}},
		{Client: d, Addresses: []string{"http://x"}}, {Client: d, Timeout: -1},
	} {
		if _, err := control.New(cfg); err == nil {
			t.Errorf("%v is accepted", cfg.Addresses)
		}
	}
}

func FuzzLookup(f *testing.F) {
	f.Add(200, []byte(running))
	f.Add(404, []byte(`{"code":404,"message":"x"}`))
	f.Add(404, []byte(`{"detail":"Not Found"}`))
	f.Add(200, []byte(`{"sandboxID":"sbx-1","state":"running","metadata":[]}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		r, err := control.New(control.Config{Client: doer(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(body))}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		route, err := r.Lookup(context.Background(), "sbx-1")
		switch {
		case (route == nil) == (err == nil):
			t.Fatalf("%+v and %v", route, err)
		case errors.Is(err, routing.ErrGone) && (status != 404 || !bytes.Contains(body, []byte("404"))):
			t.Fatalf("%d %q is said to be gone", status, body)
		case err == nil && (status != 200 || route.SandboxID != "sbx-1" || route.State == routing.StateUnknown):
			t.Fatalf("%d %q is said to be %+v", status, body, route)
		}
	})
}
