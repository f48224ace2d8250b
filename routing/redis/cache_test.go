package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// What the cache and this registry do together, against a real server.

func cached(t testing.TB, r *redis.Registry, o routing.CacheOptions) *routing.Cache {
	t.Helper()
	c := routing.NewCache(r, o)
	t.Cleanup(c.Close)
	return c
}

func fill(t testing.TB, s *redistest.Server, n int) []string {
	t.Helper()
	admin := s.Admin()
	defer admin.Close()
	ids := make([]string, n)
	pipe := admin.Pipeline()
	for i := range ids {
		ids[i] = fmt.Sprintf("sbx-%d", i)
		pipe.Set(t.Context(), "alive:"+ids[i], record(ids[i], "1"), 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ids
}

// Field report G05.
func TestFiveThousandFirstRequests(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	ids := fill(t, s, 5000)
	for name, pick := range map[string]func(i int) string{
		"for as many sandboxes": func(i int) string { return ids[i] },
		"for one sandbox":       func(int) string { return ids[0] },
	} {
		t.Run(name, func(t *testing.T) {
			// It is the number of lookups that counts here. Other tests may
			// keep the machine so busy that one takes longer than a second.
			cfg := at(s)
			cfg.Timeout = 30 * time.Second
			r := open(t, cfg)
			// One lookup before, to learn the style of the records.
			want(t, r, ids[0], nil)
			before := s.Calls("get")
			c := cached(t, r, routing.CacheOptions{LookupTimeout: 30 * time.Second, QueueTimeout: 30 * time.Second})
			start := make(chan struct{})
			var callers sync.WaitGroup
			for i := range ids {
				callers.Go(func() {
					<-start
					if _, _, err := c.Lookup(context.Background(), pick(i)); err != nil {
						t.Errorf("%s: %v", pick(i), err)
					}
				})
			}
			close(start)
			callers.Wait()
			asked := map[string]bool{}
			for i := range ids {
				asked[pick(i)] = true
			}
			if n := s.Calls("get") - before; n != len(asked) {
				t.Errorf("%d lookups, want %d", n, len(asked))
			}
			if n := s.Connections(); n > 64 {
				t.Errorf("%d connections, more than the pool's size", n)
			}
			// All of them are in memory now: not one more command.
			before = s.Calls("get")
			for i := range ids {
				if _, source, err := c.Lookup(t.Context(), pick(i)); err != nil || source != routing.SourceCache {
					t.Fatalf("%s: %v, %v", pick(i), source, err)
				}
			}
			if n := s.Calls("get") - before; n != 0 {
				t.Errorf("%d commands for routes in memory", n)
			}
		})
	}
}

// Field report G04.
func TestCallersThatHangUpKeepTheConnections(t *testing.T) {
	s := redistest.Start(t, redistest.Options{TLS: true})
	cfg := at(s)
	cfg.TLS = &redis.TLS{CAFile: s.CAFile}
	r := open(t, cfg)
	c := cached(t, r, routing.CacheOptions{LookupTimeout: 5 * time.Second})
	hangUp := func() {
		var callers sync.WaitGroup
		for i := range 1000 {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
				defer cancel()
				_, _, _ = c.Lookup(ctx, fmt.Sprintf("u%d-%d", i, time.Now().UnixNano()))
			})
		}
		callers.Wait()
		eventually(t, 10*time.Second, func() error {
			if n := c.Stats().InFlight; n > 0 {
				return fmt.Errorf("%d lookups in flight", n)
			}
			return nil
		})
	}
	accepted := func() (n int) {
		info, _ := s.Do("INFO", "stats").(string)
		_, count, _ := strings.Cut(info, "total_connections_received:")
		if _, err := fmt.Sscan(count, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	hangUp() // opens the pool
	connections, before := r.Stats().Connections, accepted()
	for range 3 {
		hangUp()
	}
	// The questions of this test open connections of their own.
	opened := accepted() - before - 1
	if connections == 0 || r.Stats().Connections > 64 || opened > int(64-connections) {
		t.Fatalf("%d connections, then %d more were opened and %d are left", connections, opened, r.Stats().Connections)
	}
	if s := c.Stats(); s.Unavailable != 0 {
		t.Fatalf("stats: %+v", s)
	}
}

// Field reports F12 and G03: Redis stops under load and comes back.
func TestRedisStopsUnderLoad(t *testing.T) {
	for name, outage := range map[string]struct{ stop, start func(*redistest.Server) }{
		"killed": {(*redistest.Server).Stop, func(s *redistest.Server) { s.Start(); s.Do("SET", "alive:back", record("back", "1")) }},
		"hangs": {
			func(s *redistest.Server) { s.Do("SET", "alive:back", record("back", "1")); s.Pause() },
			(*redistest.Server).Resume,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, redistest.Options{})
			ids := fill(t, s, 50)
			c := cached(t, open(t, at(s)), routing.CacheOptions{TTL: 200 * time.Millisecond})
			for _, id := range ids {
				if _, _, err := c.Lookup(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}

			var stopped atomic.Bool
			stop := make(chan struct{})
			var workers sync.WaitGroup
			var slow, served atomic.Int32
			for w := range 4 {
				workers.Go(func() {
					tick := time.NewTicker(2 * time.Millisecond)
					defer tick.Stop()
					for i := w; ; i++ {
						select {
						case <-stop:
							return
						case <-tick.C:
						}
						start := time.Now()
						_, _, err := c.Lookup(context.Background(), ids[i%len(ids)])
						served.Add(1)
						// A killed server forgets its records; what it says of
						// them when it is back is no outage.
						if err != nil && (stopped.Load() || !errors.Is(err, routing.ErrGone)) {
							t.Errorf("known sandbox: %v", err)
							return
						}
						if time.Since(start) > 500*time.Millisecond {
							slow.Add(1)
						}
					}
				})
			}
			outage.stop(s)
			stopped.Store(true)
			eventually(t, 10*time.Second, func() error {
				if c.Stats().Failing {
					return nil
				}
				return errors.New("the outage is not noticed")
			})
			for i := range 100 {
				start := time.Now()
				_, _, err := c.Lookup(t.Context(), fmt.Sprintf("new-%d", i))
				if !errors.Is(err, routing.ErrUnavailable) || errors.Is(err, routing.ErrGone) {
					t.Fatalf("unknown sandbox: %v", err)
				}
				if d := time.Since(start); d > 1500*time.Millisecond {
					t.Fatalf("unknown sandbox: answered after %v", d)
				}
				if time.Since(start) > 500*time.Millisecond {
					break // it was the probe; the hang is over soon enough without more of them
				}
			}
			stopped.Store(false)
			outage.start(s)
			eventually(t, 2*time.Second, func() error {
				_, source, err := c.Lookup(t.Context(), "back")
				if err == nil && source == routing.SourceStale {
					err = errors.New("stale")
				}
				return err
			})
			close(stop)
			workers.Wait()
			if served.Load() < 100 || slow.Load() > 0 {
				t.Fatalf("%d requests, %d of them slow", served.Load(), slow.Load())
			}
		})
	}
}
