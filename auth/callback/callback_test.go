package callback

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/remember"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var alice = auth.DigestOf("alice's key")

const patient = 30 * time.Second

func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestTheDigestIsAskedForAndTheKeyNeverSent(t *testing.T) {
	var got *http.Request
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = w.Write([]byte(`{"subject":"alice","scopes":["admin"]}`))
	})
	for _, base := range []string{url + "/v1/keys", url + "/v1/keys/"} {
		s := open(t, Config{URL: base, Bearer: "canary", Timeout: patient})
		key, err := s.Lookup(t.Context(), alice)
		if err != nil || key.Subject != "alice" || key.Scopes != auth.ScopeAdmin || key.Digest != alice {
			t.Fatalf("got %+v, %v", key, err)
		}
		if got.Method != http.MethodGet || got.URL.String() != "/v1/keys/"+alice.String() || got.Header.Get("Authorization") != "Bearer canary" {
			t.Errorf("asked %s %s with %v", got.Method, got.URL, got.Header)
		}
	}
}

func TestOnly200And404SayAnything(t *testing.T) {
	var elsewhere atomic.Int32
	other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"not found":      {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, auth.ErrUnknownKey},
		"gone":           {status(http.StatusGone), auth.ErrUnavailable},
		"not authorised": {status(http.StatusUnauthorized), auth.ErrUnavailable},
		"no content":     {status(http.StatusNoContent), auth.ErrUnavailable},
		"an error":       {status(http.StatusInternalServerError), auth.ErrUnavailable},
		"a redirect":     {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) }, auth.ErrUnavailable},
		"empty":          {body(""), auth.ErrUnavailable},
		"null":           {body("null"), auth.ErrUnavailable},
		"HTML":           {body("<html>"), auth.ErrUnavailable},
		"unknown field":  {body(`{"subject":"alice","expire":"canary"}`), auth.ErrUnavailable},
		"another key":    {body(`{"subject":"alice","digest":"` + auth.DigestOf("x").String() + `"}`), auth.ErrUnavailable},
		"endless":        {body(`{"subject":"alice","note":"` + strings.Repeat("x", maxAnswer) + `"}`), auth.ErrUnavailable},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"subject":"alice"}`))
		}, auth.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Config{URL: serve(t, test.answer), Timeout: patient})
			key, err := s.Lookup(t.Context(), alice)
			if !errors.Is(err, test.want) || key != nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v, %v, want %v", key, err, test.want)
			}
		})
	}
	if elsewhere.Load() > 0 {
		t.Error("the redirect was followed")
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func body(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s)) }
}

func TestAServerThatRepeatsTheSecretDoesNotGetItIntoAnError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte("Authorization: Bearer canary\r\n\r\n"))
			c.Close()
		}
	}()
	s := open(t, Config{URL: "http://" + ln.Addr().String(), Bearer: "canary", Timeout: patient})
	_, err = s.Lookup(t.Context(), alice)
	if !errors.Is(err, auth.ErrUnavailable) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), alice.String()) {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatIsDownOrHangsIsUnavailable(t *testing.T) {
	down := open(t, Config{URL: "http://127.0.0.1:1", Timeout: patient})
	if _, err := down.Lookup(t.Context(), alice); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("down: %v", err)
	}
	hang := open(t, Config{URL: serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), Timeout: 50 * time.Millisecond})
	if _, err := hang.Lookup(t.Context(), alice); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("hangs: %v", err)
	}
}

func TestAKeyThatIsTakenBackIsVoidWithinASecond(t *testing.T) {
	var revoked atomic.Bool
	s, err := New(Config{Timeout: patient, URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		if revoked.Load() {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"subject":"alice"}`))
	})})
	if err != nil {
		t.Fatal(err)
	}
	memory := remember.New(s, remember.Options{})
	defer memory.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for {
		if _, err := memory.Lookup(ctx, alice); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	revoked.Store(true)
	for since := time.Now(); ; {
		age := time.Since(since) // before it is asked: the machine may be busy with other things
		if _, err := memory.Lookup(ctx, alice); err != nil {
			break
		}
		if age >= time.Second {
			t.Fatalf("valid after %v", age)
		}
	}
}

func TestAURLThatCannotBeAskedIsRefusedWithoutBeingQuoted(t *testing.T) {
	for _, url := range []string{"", "keys", "ftp://canary", "http://", "http://me:canary@keys", "http://keys/?k=canary", "http://keys/#canary", "http://keys/%zzcanary"} {
		if _, err := New(Config{URL: url}); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := New(Config{URL: "http://keys", Bearer: "canary\r\nX: y"}); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("bearer: %v", err)
	}
}

// FuzzParse: whatever the server answers, reading it ends in a whole key or in
// an error.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"subject":"alice","scopes":["data"]}`))
	f.Add([]byte(`{"digest":"` + alice.String() + `","subject":"alice"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, err := parse(b, alice); err == nil && (key.Digest != alice || !auth.ValidSubject(key.Subject) || key.Scopes == 0) {
			t.Errorf("%s became %+v", b, key)
		}
	})
}
