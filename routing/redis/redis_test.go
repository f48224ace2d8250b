package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/redis"
)

func record(id, lifecycle string) string {
	return fmt.Sprintf(`{"sandbox_id":%q,"state":"running","host_ip":"10.0.0.5","port_mapping":{"8080":31003},"start_time":%q}`, id, lifecycle)
}

func open(t testing.TB, cfg redis.Config) *redis.Registry {
	t.Helper()
	if cfg.Watch == "" {
		cfg.Watch = redis.WatchOff
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	r, err := redis.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func at(s *redistest.Server) redis.Config {
	return redis.Config{Addresses: []string{s.Addr}, Password: s.Password}
}

// want looks a sandbox up and checks the kind of the answer; nil means here.
func want(t testing.TB, r routing.Registry, id string, kind error) *routing.Route {
	t.Helper()
	route, err := r.Lookup(t.Context(), id)
	if (route == nil) == (err == nil) {
		t.Fatalf("%s: route %v and error %v", id, route, err)
	}
	if !errors.Is(err, kind) || errors.Is(err, routing.ErrGone) != (kind == routing.ErrGone) {
		t.Fatalf("%s: %v, want %v", id, err, kind)
	}
	return route
}

func TestLookupReadsPlainStrings(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("SET", "alive:a", record("a", "1"))
	s.Do("SET", "alive:b", "["+record("b", "1")+"]")
	r := open(t, at(s))
	if route := want(t, r, "a", nil); route.SandboxID != "a" || route.State != routing.StateRunning || route.Ports.String() != "8080:31003 " {
		t.Fatalf("got %+v", route)
	}
	want(t, r, "b", nil)
	want(t, r, "unknown", routing.ErrGone)
}

func TestLookupCostsOneCommand(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("SET", "alive:a", record("a", "1"))
	r := open(t, at(s))
	want(t, r, "a", nil) // learns that the server has no JSON commands
	learned := r.Stats().Commands
	for range 50 {
		want(t, r, "a", nil)
		want(t, r, "unknown", routing.ErrGone)
	}
	if n := r.Stats().Commands - learned; n != 100 {
		t.Fatalf("%d commands for 100 lookups", n)
	}
	if n := s.Calls("get"); n != 101 {
		t.Fatalf("the server counted %d GETs, want 101", n)
	}
}

// Field report F09.
func TestLookupOfAKeyThatIsNoRecord(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("HSET", "alive:hash", "state", "running")
	s.Do("RPUSH", "alive:list", "x")
	s.Do("SET", "alive:text", "running")
	s.Do("SET", "alive:empty", "")
	s.Do("SET", "alive:emptylist", "[]")
	r := open(t, at(s))
	for range 2 {
		want(t, r, "hash", routing.ErrMalformed)
		want(t, r, "list", routing.ErrMalformed)
		want(t, r, "text", routing.ErrMalformed)
		want(t, r, "empty", routing.ErrMalformed)
		want(t, r, "emptylist", routing.ErrGone)
		want(t, r, "unknown", routing.ErrGone)
	}
}

// Field report M12.
func TestLookupOfAnInvalidIDAsksNothing(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	r := open(t, at(s))
	for _, id := range []string{"", "*", "a:b", "x\r\nFLUSHALL", "{x}"} {
		want(t, r, id, routing.ErrInvalidSandboxID)
	}
	if n := r.Stats().Commands; n != 0 {
		t.Fatalf("%d commands", n)
	}
}

func TestLookupWithPrefixAndDatabase(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	admin := s.Admin()
	defer admin.Close()
	conn := admin.Conn()
	defer conn.Close()
	if err := conn.Select(t.Context(), 3).Err(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Set(t.Context(), "rock:a", record("a", "1"), 0).Err(); err != nil {
		t.Fatal(err)
	}
	cfg := at(s)
	cfg.DB, cfg.KeyPrefix = 3, "rock:"
	want(t, open(t, cfg), "a", nil)
	cfg.DB = 0
	want(t, open(t, cfg), "a", routing.ErrGone)
}

func TestLookupWithPassword(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Password: "s3cret-pass"})
	s.Do("SET", "alive:a", record("a", "1"))
	for _, protocol := range []int{2, 3} {
		cfg := at(s)
		cfg.Protocol = protocol
		want(t, open(t, cfg), "a", nil)
		for _, wrong := range []string{"", "wr0ng-pass"} {
			cfg.Password = wrong
			r := open(t, cfg)
			want(t, r, "a", routing.ErrUnavailable)
			if _, err := r.Lookup(t.Context(), "a"); wrong != "" && strings.Contains(err.Error(), wrong) {
				t.Errorf("the error tells the password: %v", err)
			}
		}
	}
}

// Field report G06: an ACL user who may do nothing but read records.
func TestLookupAsACLUser(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Args: []string{"--notify-keyspace-events", "KEA"}, Users: []string{
		"reader on >s3cret-pass ~alive:* -@all +get",
		"blind on >s3cret-pass ~other:* -@all +get",
		"tracker on >s3cret-pass resetchannels ~alive:* &__redis__:invalidate -@all +get +subscribe +ping +client|id +client|tracking",
		"listener on >s3cret-pass resetchannels ~alive:* &__keyspace@0__:alive:* -@all +get +psubscribe +ping",
	}})
	s.Do("SET", "alive:a", record("a", "1"))
	user := func(name string) redis.Config {
		cfg := at(s)
		cfg.Username, cfg.Password = name, "s3cret-pass"
		return cfg
	}
	want(t, open(t, user("reader")), "a", nil)
	want(t, open(t, user("reader")), "unknown", routing.ErrGone)
	want(t, open(t, user("blind")), "a", routing.ErrUnavailable)

	cfg := user("tracker")
	cfg.Watch = redis.WatchTracking
	changes := watch(t, open(t, cfg))
	changes.next(t, "")
	s.Do("SET", "alive:a", record("a", "2"))
	changes.next(t, "a")

	cfg = user("listener")
	cfg.Watch = redis.WatchKeyspace
	changes = watch(t, open(t, cfg))
	changes.next(t, "")
	s.Do("SET", "alive:a", record("a", "3"))
	changes.next(t, "a")
}

func TestLookupOverTLS(t *testing.T) {
	s := redistest.Start(t, redistest.Options{TLS: true, Password: "s3cret-pass"})
	s.Do("SET", "alive:a", record("a", "1"))
	cfg := at(s)
	for _, protocol := range []int{2, 3} {
		cfg.Protocol = protocol
		cfg.TLS = &redis.TLS{CAFile: s.CAFile}
		want(t, open(t, cfg), "a", nil)
		cfg.TLS = &redis.TLS{CAFile: s.CAFile, ServerName: "localhost"}
		want(t, open(t, cfg), "a", nil)
	}
	for name, tls := range map[string]*redis.TLS{
		"unknown authority": {},
		"wrong name":        {CAFile: s.CAFile, ServerName: "redis.example.com"},
		"cleartext":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			cfg.TLS = tls
			want(t, open(t, cfg), "a", routing.ErrUnavailable)
		})
	}
}

// Field report G03, for connections whose death is not seen before they are used.
func TestLookupOverTLSAfterRestart(t *testing.T) {
	s := redistest.Start(t, redistest.Options{TLS: true})
	cfg := at(s)
	cfg.TLS, cfg.PoolSize = &redis.TLS{CAFile: s.CAFile}, 10
	r := open(t, cfg)
	burst(t, r, 10)
	if n := r.Stats().Idle; n < 2 {
		t.Fatalf("%d idle connections are too few to tell anything", n)
	}
	s.Stop()
	s.Start()
	s.Do("SET", "alive:a", record("a", "1"))
	want(t, r, "a", nil)
}

// burst makes n lookups at the same time, to open connections.
func burst(t testing.TB, r routing.Registry, n int) {
	t.Helper()
	results := make(chan error, n)
	for range n {
		go func() {
			_, err := r.Lookup(context.Background(), "nobody")
			results <- err
		}()
	}
	for range n {
		if err := <-results; !errors.Is(err, routing.ErrGone) {
			t.Fatal(err)
		}
	}
}

func TestLookupHonoursTheCallersDeadline(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	r := open(t, at(s))
	want(t, r, "a", routing.ErrGone)
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := r.Lookup(ctx, "a"); !errors.Is(err, routing.ErrUnavailable) || time.Since(start) > 500*time.Millisecond {
		t.Fatalf("%v after %v", err, time.Since(start))
	}
}

func TestPing(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	r := open(t, at(s))
	if err := r.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := r.Ping(t.Context()); !errors.Is(err, routing.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
}
