package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/redis"
)

type changes chan string

func watch(t testing.TB, w routing.Watcher) changes {
	t.Helper()
	ch := make(changes, 1000)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Watch(ctx, func(id string) { ch <- id })
	}()
	t.Cleanup(func() {
		stop()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Error("Watch does not end with its context")
		}
	})
	return ch
}

// next waits for a change of id; other changes are passed over.
func (ch changes) next(t testing.TB, id string) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case got := <-ch:
			if got == id {
				return
			}
		case <-limit:
			t.Fatalf("no change of %q", id)
		}
	}
}

// drain forgets the changes so far.
func (ch changes) drain() {
	for {
		select {
		case <-ch:
		default:
			return
		}
	}
}

func watched(t testing.TB, s *redistest.Server, kind string) (*redis.Registry, changes) {
	cfg := at(s)
	cfg.Watch = kind
	if s.CAFile != "" {
		cfg.TLS = &redis.TLS{CAFile: s.CAFile}
	}
	r := open(t, cfg)
	ch := watch(t, r)
	ch.next(t, "")
	return r, ch
}

func TestWatch(t *testing.T) {
	for name, test := range map[string]struct {
		kind    string
		options redistest.Options
	}{
		"tracking":          {redis.WatchTracking, redistest.Options{}},
		"tracking over TLS": {redis.WatchTracking, redistest.Options{TLS: true, Password: "p"}},
		"keyspace":          {redis.WatchKeyspace, redistest.Options{Args: []string{"--notify-keyspace-events", "KEA"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, test.options)
			r, ch := watched(t, s, test.kind)
			if n := r.Stats().Watching; n != 1 {
				t.Fatalf("watching %d servers", n)
			}
			s.Do("SET", "alive:a", record("a", "1"))
			ch.next(t, "a")
			s.Do("DEL", "alive:a")
			ch.next(t, "a")
			s.Do("SET", "timeout:a", "{}")
			s.Do("SET", "alive:b", "{}")
			if got := <-ch; got != "b" {
				t.Fatalf("another key's change was told as %q", got)
			}
			// Reads are not changes.
			want(t, r, "b", routing.ErrGone)
			s.Do("SET", "alive:c", "{}")
			if got := <-ch; got != "c" {
				t.Fatalf("a read was told as a change of %q", got)
			}
		})
	}
}

func TestWatchTellsThatChangesMayHaveBeenMissed(t *testing.T) {
	for _, kind := range []string{redis.WatchTracking, redis.WatchKeyspace} {
		t.Run(kind, func(t *testing.T) {
			s := redistest.Start(t, redistest.Options{Args: []string{"--notify-keyspace-events", "KEA"}})
			_, ch := watched(t, s, kind)

			s.Do("CLIENT", "KILL", "TYPE", "pubsub")
			ch.next(t, "")
			s.Do("SET", "alive:a", "{}")
			ch.next(t, "a")

			s.Stop()
			s.Start()
			ch.next(t, "")
			s.Do("SET", "alive:b", "{}")
			ch.next(t, "b")
		})
	}
}

func TestWatchNoticesThatEverythingWasDeleted(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	_, ch := watched(t, s, redis.WatchTracking)
	s.Do("SET", "alive:a", "{}")
	ch.next(t, "a")
	ch.drain()
	s.Do("FLUSHALL")
	ch.next(t, "")
}

func TestWatchStartsWithoutRedis(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Stop()
	cfg := at(s)
	cfg.Watch = redis.WatchTracking
	ch := watch(t, open(t, cfg))
	s.Start()
	ch.next(t, "")
}

func TestWatchOffOnlyWaits(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	watch(t, open(t, at(s)))
	if n := s.Calls("client|tracking"); n != 0 {
		t.Fatalf("%d CLIENT TRACKING", n)
	}
}

func TestWatchThatRedisRefusesOnlyRetries(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Users: []string{"reader on >p ~alive:* -@all +get"}})
	s.Do("SET", "alive:a", record("a", "1"))
	cfg := at(s)
	cfg.Username, cfg.Password, cfg.Watch = "reader", "p", redis.WatchTracking
	r := open(t, cfg)
	watch(t, r)
	want(t, r, "a", nil)
	if n := r.Stats().Watching; n != 0 {
		t.Fatalf("watching %d servers", n)
	}
}

// Field report F07, on another instance than the one that deletes.
func TestCacheHearsOfADeletion(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("SET", "alive:a", record("a", "1"))
	cfg := at(s)
	cfg.Watch = redis.WatchTracking
	r := open(t, cfg)
	c := routing.NewCache(r, routing.CacheOptions{})
	defer c.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	defer func() { stop(); <-done }()
	eventually(t, 5*time.Second, func() error {
		if r.Stats().Watching == 0 || c.Stats().Invalidations == 0 {
			return routing.ErrUnavailable
		}
		return nil
	})
	if _, _, err := c.Lookup(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	s.Do("DEL", "alive:a")
	eventually(t, time.Second, func() error {
		if _, _, err := c.Lookup(ctx, "a"); err == nil {
			return routing.ErrMalformed
		}
		return nil
	})
}
