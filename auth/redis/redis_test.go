package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/remember"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing/redis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var alice = auth.DigestOf("alice's key")

// patient is for machines that are busy with other things.
const patient = 30 * time.Second

func open(t *testing.T, cfg redis.Config) *Store {
	t.Helper()
	s, err := New(cfg, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestAHashIsAKey(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := open(t, redis.Config{Addresses: []string{server.Addr}, Timeout: patient})
	server.Do("HSET", DefaultPrefix+alice.String(), "subject", "alice", "scopes", "data, admin", "expires", "2027-01-31T00:00:00Z",
		"disabled", "1", "user_id", "u", "namespace", "n", "experiment_id", "e", "cluster", "c",
		"streams", "5", "requests", "0.5", "creates", "-1", "body", "1024", "note", "her laptop")
	got, err := s.Lookup(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	want := auth.Key{
		Digest: alice, Subject: "alice", Scopes: auth.ScopeData | auth.ScopeAdmin, Disabled: true,
		Expires: time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC),
		Tenant:  auth.Tenant{UserID: "u", Namespace: "n", ExperimentID: "e", Cluster: "c"},
		Limits:  auth.Limits{Streams: 5, Requests: 0.5, Creates: -1, Body: 1024},
	}
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if _, err := s.Lookup(t.Context(), auth.DigestOf("other")); !errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("a key that is not there: %v", err)
	}
}

func TestAnUnreadableRecordIsNoKeyAndNotUnknown(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := open(t, redis.Config{Addresses: []string{server.Addr}, Timeout: patient})
	key := DefaultPrefix + alice.String()
	for name, set := range map[string][]any{
		"an unknown field": {"HSET", key, "subject", "alice", "expire", "canary"},
		"no subject":       {"HSET", key, "scopes", "data"},
		"no scopes":        {"HSET", key, "subject", "alice", "scopes", ""},
		"no time":          {"HSET", key, "subject", "alice", "expires", "canary"},
		"no number":        {"HSET", key, "subject", "alice", "requests", "NaN"},
		"another digest":   {"HSET", key, "subject", "alice", "digest", "canary"},
		"no hash":          {"SET", key, "canary"},
	} {
		t.Run(name, func(t *testing.T) {
			server.Do("DEL", key)
			server.Do(set...)
			_, err := s.Lookup(t.Context(), alice)
			if !errors.Is(err, auth.ErrUnavailable) || errors.Is(err, auth.ErrUnknownKey) || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAUserWhoMayReadTheKeysIsEnough(t *testing.T) {
	const password = "canary"
	server := redistest.Start(t, redistest.Options{Users: []string{"gateway on >" + password + " ~e2b-gateway:key:* +hgetall"}})
	server.Do("HSET", DefaultPrefix+alice.String(), "subject", "alice")
	s := open(t, redis.Config{Addresses: []string{server.Addr}, Username: "gateway", Password: password, Timeout: patient})
	if key, err := s.Lookup(t.Context(), alice); err != nil || key.Subject != "alice" {
		t.Errorf("got %v, %v", key, err)
	}
	wrong := open(t, redis.Config{Addresses: []string{server.Addr}, Username: "gateway", Password: password + "s", Timeout: patient})
	if _, err := wrong.Lookup(t.Context(), alice); !errors.Is(err, auth.ErrUnavailable) || strings.Contains(err.Error(), password) {
		t.Errorf("with a wrong password: %v", err)
	}
}

func TestAKeyThatIsTakenBackIsVoidWithinASecond(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	key := DefaultPrefix + alice.String()
	server.Do("HSET", key, "subject", "alice")
	s, err := New(redis.Config{Addresses: []string{server.Addr}, Timeout: patient}, "")
	if err != nil {
		t.Fatal(err)
	}
	memory := remember.New(s, remember.Options{})
	defer memory.Close()
	valid := func() bool {
		k, err := memory.Lookup(t.Context(), alice)
		return err == nil && k.Valid(time.Now()) == nil
	}
	for _, test := range []struct {
		name string
		void func()
	}{
		{"deleted", func() { server.Do("DEL", key) }},
		{"disabled", func() { server.Do("HSET", key, "disabled", "true") }},
		{"expired", func() { server.Do("HSET", key, "expires", "2001-01-01T00:00:00Z") }},
		{"no Redis", server.Stop},
	} {
		server.Do("DEL", key)
		server.Do("HSET", key, "subject", "alice")
		waitFor(t, valid)
		test.void()
		since := time.Now()
		for {
			age := time.Since(since) // before it is asked: the machine may be busy with other things
			if !valid() {
				break
			}
			if age >= time.Second {
				t.Fatalf("%s: valid after %v", test.name, age)
			}
		}
	}
	if _, err := memory.Lookup(t.Context(), alice); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("without Redis: %v", err)
	}
}

// waitFor asks until it is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for !so() {
		if ctx.Err() != nil {
			t.Fatal("it never was")
		}
	}
}

// FuzzParse: whatever is in a hash, reading it ends, and an empty field is no
// missing one.
func FuzzParse(f *testing.F) {
	f.Add("scopes", "data,admin", "expires", "2027-01-31T00:00:00Z")
	f.Add("requests", "inf", "body", "9223372036854775808")
	f.Fuzz(func(t *testing.T, name, value, name2, value2 string) {
		r, err := parse(map[string]string{"subject": "alice", name: value, name2: value2})
		if err == nil {
			_, err = r.KeyOf(alice)
		}
		if err == nil && (r.Subject == "" || r.Scopes != nil && len(r.Scopes) == 0) {
			t.Errorf("taken as %+v", r)
		}
	})
}
