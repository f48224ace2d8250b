package redis_test

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// Others talk on, faster than this one can listen, while it stops.
func TestWhoStopsListeningLeavesNothingBehind(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	before := goleak.IgnoreCurrent()
	client, err := redis.NewClient(redis.Config{Addresses: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var heard atomic.Int32
	ended := make(chan error, 1)
	go func() {
		ended <- client.Listen(ctx, "talk", func(string) {
			heard.Add(1)
			<-ctx.Done()
		})
	}()
	eventually(t, 10*time.Second, func() error {
		if heard.Load() > 0 {
			return nil
		}
		return cmp.Or(client.Publish(ctx, "talk", []byte("is anybody there?")), errors.New("nobody is"))
	})
	for range 300 { // go-redis holds 100 of them
		if err := client.Publish(ctx, "talk", []byte("talk")); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	client.Close()
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
