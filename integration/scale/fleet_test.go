package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/auth/limit/share"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// realm is what gateways have in common that share limits.
const realm = "0:alive:"

// gateway is what of one talks to Redis.
type gateway struct {
	registry *redis.Registry
	cache    *routing.Cache
	limiter  *limit.Limiter
}

// fleet is gateways in front of one Redis, which all know what it told them and hear of what changes.
type fleet struct {
	*testing.T
	server   *redistest.Server
	admin    *goredis.Client // ROCK, and whoever looks
	gateways []*gateway
	ids      []string
}

// start runs a fleet and writes the records of sandboxes.
func start(t *testing.T, gateways, sandboxes int) *fleet {
	f := &fleet{T: t, server: redistest.Start(t, redistest.Options{})}
	goroutines := runtime.NumGoroutine()
	t.Cleanup(func() {
		// Closed connections end a little later, and on a busy machine later than goleak waits for.
		f.until("all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	})
	f.admin = f.server.Admin()
	t.Cleanup(func() { f.admin.Close() })
	f.write(sandboxes)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for range gateways {
		// The bounds are wide because it is commands that count: the machine may be busy.
		cfg := redis.Config{Addresses: []string{f.server.Addr}, Timeout: 30 * time.Second, Logger: quiet}
		registry, err := redis.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		client, err := redis.NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		g := &gateway{
			registry: registry,
			cache: routing.NewCache(registry, routing.CacheOptions{
				TTL: time.Hour, Patience: 30 * time.Second, LookupTimeout: 30 * time.Second, QueueTimeout: 30 * time.Second,
			}),
			limiter: limit.New(auth.Limits{Requests: auth.HighestRate}, auth.Limits{}),
		}
		shared := share.Start(client, realm, g.limiter, quiet)
		running.Go(func() { g.cache.Run(ctx) })
		t.Cleanup(func() {
			stop()
			running.Wait()
			g.cache.Close()
			registry.Close()
			shared.Close()
		})
		f.gateways = append(f.gateways, g)
	}
	f.awaitWatches(1)
	f.awaitListeners()
	for _, g := range f.gateways { // how records are written is found out once
		if _, err := g.cache.Fresh(t.Context(), f.ids[0]); err != nil {
			t.Fatal(err)
		}
		g.cache.Invalidate(f.ids[0])
	}
	return f
}

// write puts the records of running sandboxes into Redis, as ROCK and the gateway write them, and their ends, which have
// passed.
func (f *fleet) write(sandboxes int) {
	f.Helper()
	pipe := f.admin.Pipeline()
	for i := range sandboxes {
		id := fmt.Sprintf("%024x%08x", uint64(i+1)*0x9e3779b97f4a7c15, i)
		f.ids = append(f.ids, id)
		owner := routing.Owner{Subject: fmt.Sprint("team-", i%100), Key: [32]byte{byte(i)}}
		pipe.Set(f.Context(), "alive:"+id, fmt.Sprintf(`{"sandbox_id":%q,"host_ip":"10.0.%d.%d","host_name":"ray-worker-7",`+
			`"image":"python:3.12","user_id":"u-1001","experiment_id":"default","namespace":"default","cpus":2,"memory":"8g","state":"running",`+
			`"port_mapping":{"22":30001,"8080":31001,"22555":32001},"metadata":{%q:%q,%q:%q,"job":"swe-bench"},`+
			`"phases":{"image_pull":{"status":"success","message":"ok"},"docker_run":{"status":"success","message":"ok"}},`+
			`"create_time":"2026-08-21T14:12:10+08:00","start_time":"2026-08-21T14:12:44+08:00"}`,
			id, i/256%256, i%256, routing.MetadataOwner, owner.Metadata(), routing.MetadataSubject, owner.Subject), 0)
		pipe.Set(f.Context(), "timeout:"+id, `{"auto_clear_time": "30", "expire_time": "1787552764"}`, 0)
	}
	if _, err := pipe.Exec(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// awaitWatches waits until every gateway has been told so often that anything may have changed.
func (f *fleet) awaitWatches(times uint64) {
	f.Helper()
	for i, g := range f.gateways {
		f.until(fmt.Sprint("gateway ", i, " watches"), func() bool {
			return g.registry.Stats().Watching == 1 && g.cache.Stats().Invalidations >= times
		})
	}
}

// awaitListeners waits until every gateway hears what the others have admitted.
func (f *fleet) awaitListeners() {
	f.Helper()
	channel := share.Channel + realm
	f.until("all listen to each other", func() bool {
		return f.admin.PubSubNumSub(f.Context(), channel).Val()[channel] == int64(len(f.gateways))
	})
}

// ask lets every gateway look up each of the sandboxes, and fails the test if another answer comes than the one that is
// wanted: an error, or nil for a route.
func (f *fleet) ask(ids []string, want error) {
	f.Helper()
	const callers = 4 // for each gateway
	var asking sync.WaitGroup
	for _, g := range f.gateways {
		var next atomic.Int64
		for range callers {
			asking.Go(func() {
				for i := next.Add(1); i <= int64(len(ids)); i = next.Add(1) {
					route, source, err := g.cache.Lookup(context.Background(), ids[i-1])
					if !errors.Is(err, want) || (route == nil) == (err == nil) || source == routing.SourceStale {
						f.Errorf("%s: %+v from %v, %v", ids[i-1], route, source, err)
						return
					}
				}
			})
		}
	}
	asking.Wait()
}

// until waits for something that other goroutines and processes bring about.
func (f *fleet) until(what string, done func() bool) {
	f.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(60 * time.Second); !done(); {
		select {
		case <-ticker.C:
		case <-end:
			f.Fatalf("not within a minute: %s", what)
		}
	}
}
