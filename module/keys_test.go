package module

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/auth"
	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// countedKeys is a store of keys that knows how many of it there are.
type countedKeys struct {
	Label string
	alive *atomic.Int32
}

func (countedKeys) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: e2bcaddyfile.KeysNamespace + ".counted", New: func() caddy.Module { return new(countedKeys) }}
}

func (c *countedKeys) Store(KeysEnvironment) (auth.Store, error) {
	if c.Label == "broken" {
		return nil, errors.New("fails on purpose")
	}
	c.alive.Add(1)
	return &countedStore{alive: c.alive}, nil
}

type countedStore struct {
	auth.Table
	alive *atomic.Int32
}

func (s *countedStore) Close() error { s.alive.Add(-1); return nil }

func TestConfigsWithTheSameStoreOfKeysShareIt(t *testing.T) {
	var alive atomic.Int32
	var old, same, other leases
	first, err := leaseKeys(&old, &countedKeys{"a", &alive})
	if err != nil {
		t.Fatal(err)
	}
	second, err := leaseKeys(&same, &countedKeys{"a", &alive})
	if err != nil || first != second || alive.Load() != 1 {
		t.Errorf("%v, %d stores", err, alive.Load())
	}
	if third, err := leaseKeys(&other, &countedKeys{"b", &alive}); err != nil || third == first {
		t.Errorf("the options differ and the store does not: %v", err)
	}
	old.release()
	if alive.Load() != 2 {
		t.Error("the store was closed in use")
	}
	same.release()
	other.release()
	if n := alive.Load(); n != 0 {
		t.Errorf("%d stores are open and nobody uses them", n)
	}
}

func TestAStoreOfKeysThatCannotBeMadeLeavesNothingBehind(t *testing.T) {
	var alive atomic.Int32
	var l leases
	if _, err := leaseKeys(&l, &countedKeys{"broken", &alive}); err == nil || len(l) > 0 {
		t.Errorf("%v, %d leases", err, len(l))
	}
}

// provision brings an app with one cluster and these options to life and back.
func provision(t *testing.T, options string, look func(*App)) error {
	t.Helper()
	app := new(App)
	config := `{"clusters": [{"name":"a","admin":["http://127.0.0.1:1"],"proxy":["http://127.0.0.1:1"]}],` + options + `}`
	if err := json.Unmarshal([]byte(config), app); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	defer func() {
		if err := app.Cleanup(); err != nil {
			t.Error(err)
		}
	}()
	if err := app.Provision(ctx); err != nil {
		return err
	}
	look(app)
	return nil
}

func TestWhoGetsInIsWhatTheConfigSays(t *testing.T) {
	t.Setenv("E2B_TEST_TOKEN_KEY", " "+strings.Repeat("k", 32)+"\r\n")
	tokens := `"tokens":{"keys":[{"id":"a","secret":"{env.E2B_TEST_TOKEN_KEY}"}]}`
	table := `"keys":{"store":"static","keys":[{"digest":"` + auth.DigestOf("x").String() + `","subject":"alice"}]},`
	access := func(options string, check func(l *live)) {
		t.Helper()
		err := provision(t, options, func(a *App) {
			l, err := a.shared.acquire()
			if err != nil {
				t.Fatal(err)
			}
			defer a.shared.release()
			check(l)
		})
		if err != nil {
			t.Fatalf("%s: %v", options, err)
		}
	}
	access(`"keys":{"store":"off"}`, func(l *live) {
		if l.access != nil {
			t.Error("off: there is somebody at the door")
		}
	})
	access(table+tokens, func(l *live) {
		if l.access == nil || l.access.Tokens == nil || l.access.AllowUnowned || l.access.PrivateHealth {
			t.Fatalf("the defaults are %+v", l.access)
		}
		if key, err := l.access.Keys.Lookup(t.Context(), auth.DigestOf("x")); err != nil || key.Subject != "alice" {
			t.Errorf("got %v, %v", key, err)
		}
		same, err := auth.NewTokens([]auth.TokenKey{{ID: "a", Secret: []byte(strings.Repeat("k", 32))}})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := same.Check(auth.AccessToken, l.access.Tokens.Mint(auth.AccessToken, "s", "alice"), "s"); !ok {
			t.Error("the space around the secret counts")
		}
	})
	access(table+`"tokens":{"passthrough":true},"unowned":"allow","health":"private"`, func(l *live) {
		if l.access == nil || l.access.Tokens != nil || !l.access.AllowUnowned || !l.access.PrivateHealth {
			t.Errorf("got %+v", l.access)
		}
	})
}

func TestAnAppThatCannotKnowWhoGetsInDoesNotStart(t *testing.T) {
	t.Setenv("E2B_TEST_SHORT", strings.Repeat("s", 31))
	t.Setenv("E2B_TEST_BLANK", "  \n")
	broken := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(broken, []byte(`{"keys":[{"digest":"e2b_canary","subject":"a"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const passthrough = `,"tokens":{"passthrough":true}`
	for name, test := range map[string]struct{ options, problem string }{
		"nobody has said":       {`"unowned":"deny"`, "who gets in"},
		"no such store":         {`"keys":{"store":"vault"}` + passthrough, "vault"},
		"a raw key in JSON":     {`"keys":{"store":"static","keys":[{"digest":"e2b_canary","subject":"a"}]}` + passthrough, "keys hash"},
		"a literal token key":   {`"keys":{"store":"static"},"tokens":{"keys":[{"id":"a","secret":"canary canary canary canary canary"}]}`, "does not belong"},
		"a literal password":    {`"keys":{"store":"redis","addresses":["a:1"],"password":"canary"}` + passthrough, "does not belong"},
		"a literal bearer":      {`"keys":{"store":"http","url":"http://a","bearer":"canary"}` + passthrough, "does not belong"},
		"a literal in registry": {`"keys":{"store":"off"},"registry":{"backend":"redis","addresses":["a:1"],"password":"canary"}`, "does not belong"},
		"a short token key":     {`"keys":{"store":"static"},"tokens":{"keys":[{"id":"a","secret":"{env.E2B_TEST_SHORT}"}]}`, "31 bytes"},
		"an empty token key":    {`"keys":{"store":"static"},"tokens":{"keys":[{"id":"a","secret":"{env.E2B_TEST_BLANK}"}]}`, "empty"},
		"an unset token key":    {`"keys":{"store":"static"},"tokens":{"keys":[{"id":"a","secret":"{env.E2B_TEST_NOT_SET}"}]}`, "E2B_TEST_NOT_SET"},
		"a missing file":        {`"keys":{"store":"file","path":"/does/not/exist"}` + passthrough, "/does/not/exist"},
		"a broken file":         {`"keys":{"store":"file","path":"` + broken + `"}` + passthrough, "keys.json"},
	} {
		t.Run(name, func(t *testing.T) {
			err := provision(t, test.options, func(*App) {})
			if err == nil || !strings.Contains(err.Error(), test.problem) || strings.Contains(err.Error(), "canary") {
				t.Errorf("want an error with %q, got %v", test.problem, err)
			}
		})
	}
}
