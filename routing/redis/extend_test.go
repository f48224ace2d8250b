package redis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// timeout is a document as ROCK writes it.
func timeout(minutes int, end int64) string {
	return fmt.Sprintf(`{"auto_clear_time":"%d","expire_time":"%d"}`, minutes, end)
}

// keeper is a Redis with a style of writing.
type keeper struct {
	*redistest.Server
	json bool
}

func (k keeper) set(key, value string) {
	if k.json {
		k.Do("JSON.SET", key, "$", value)
		return
	}
	k.Do("SET", key, value)
}

// read takes the document of a sandbox apart; zeros for none.
func (k keeper) read(t *testing.T, key string) (minutes int, end int64) {
	t.Helper()
	command := []any{"GET", key}
	if k.json {
		command = []any{"JSON.GET", key, "$"}
	}
	value, _ := k.Do(command...).(string)
	value = strings.Trim(value, "[]")
	if value == "" {
		return 0, 0
	}
	var document struct {
		Minutes string `json:"auto_clear_time"`
		End     string `json:"expire_time"`
	}
	if err := json.Unmarshal([]byte(value), &document); err != nil {
		t.Fatalf("%q: %v", value, err)
	}
	minutes, _ = strconv.Atoi(document.Minutes)
	end, _ = strconv.ParseInt(document.End, 10, 64)
	return minutes, end
}

// registry is one that gives a slow machine time.
func (k keeper) registry(t *testing.T) *redis.Registry {
	cfg := at(k.Server)
	cfg.Timeout = 20 * time.Second
	return open(t, cfg)
}

// keepers runs a test for both ways in which ROCK's documents are kept.
func keepers(t *testing.T, test func(*testing.T, keeper)) {
	t.Run("strings", func(t *testing.T) { test(t, keeper{redistest.Start(t, redistest.Options{}), false}) })
	t.Run("JSON", func(t *testing.T) { test(t, keeper{redistest.StartJSON(t), true}) })
}

func extend(r *redis.Registry, id string) error {
	return r.Extend(context.Background(), &routing.Route{SandboxID: id})
}

func TestASandboxInUseEndsLater(t *testing.T) {
	keepers(t, func(t *testing.T, k keeper) {
		r := k.registry(t)
		now := time.Now().Unix()
		far := now + 10_000
		k.set("timeout:a", timeout(2, now+5))
		k.set("timeout:far", timeout(2, far))
		k.set("timeout:due", timeout(0, now))
		for _, id := range []string{"a", "far", "due"} {
			if err := extend(r, id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		if minutes, end := k.read(t, "timeout:a"); minutes != 2 || end < now+120 || end > time.Now().Unix()+120 {
			t.Errorf("%d minutes, ends %d s from now", minutes, end-now)
		}
		if _, end := k.read(t, "timeout:far"); end != far {
			t.Error("the end came earlier")
		}
		if minutes, end := k.read(t, "timeout:due"); minutes != 0 || end != now {
			t.Error("what is due at once was changed")
		}
		// Nothing is made that is not there.
		if err := extend(r, "unknown"); !errors.Is(err, routing.ErrGone) {
			t.Errorf("unknown: %v", err)
		}
		if k.Do("EXISTS", "timeout:unknown") != int64(0) {
			t.Error("a key was made")
		}
		if err := extend(r, "../x"); !errors.Is(err, routing.ErrInvalidSandboxID) {
			t.Errorf("%v", err)
		}
	})
}

func TestOtherNamesOfTheTimeout(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("SET", "end-a", `{"minutes":"2","end":"5"}`)
	cfg := at(s)
	cfg.TimeoutPrefix, cfg.Fields = "end-", redis.Fields{AutoClearTime: "minutes", ExpireTime: "end"}
	if err := extend(open(t, cfg), "a"); err != nil {
		t.Fatal(err)
	}
	if got := s.Do("GET", "end-a").(string); strings.Contains(got, `"5"`) {
		t.Error(got)
	}
}

func TestAStringKeepsItsTimeToLive(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("SET", "timeout:a", timeout(2, 5), "EX", 1000)
	if err := extend(open(t, at(s)), "a"); err != nil {
		t.Fatal(err)
	}
	if left := s.Do("TTL", "timeout:a").(int64); left < 900 {
		t.Errorf("%d s to live", left)
	}
}

// ROCK writes the whole document, and so do we: what it has written must not be undone.
func TestWhatROCKWritesMeanwhileStays(t *testing.T) {
	keepers(t, func(t *testing.T, k keeper) {
		r := k.registry(t)
		k.set("timeout:a", timeout(1, 1))
		stop := make(chan struct{})
		var extending sync.WaitGroup
		for range 2 {
			extending.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := extend(r, "a"); err != nil && !errors.Is(err, routing.ErrGone) {
						t.Errorf("extend: %v", err)
						return
					}
				}
			})
		}
		for i := range 200 {
			minutes := 2 + i%50
			k.set("timeout:a", timeout(minutes, 1)) // always something to extend
			if got, _ := k.read(t, "timeout:a"); got != minutes {
				t.Fatalf("%d minutes became %d", minutes, got)
			}
			if i%20 == 0 {
				k.Do("DEL", "timeout:a")
				if n := k.Do("EXISTS", "timeout:a"); n != int64(0) {
					t.Fatal("a deleted key came back")
				}
			}
		}
		close(stop)
		extending.Wait()
	})
}

func TestAClusterExtendsOnTheNodeThatHoldsTheKey(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	r := open(t, redis.Config{Addresses: []string{c.Nodes[0].Addr}, Cluster: true})
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		c.Set("timeout:"+id, timeout(2, 5))
		if err := extend(r, id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		node := keeper{c.Nodes[c.Owner("timeout:"+id)], false}
		if _, end := node.read(t, "timeout:"+id); end < time.Now().Unix() {
			t.Errorf("%s still ends at %d", id, end)
		}
	}
}

func TestARefusalIsLoggedOnce(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Users: []string{"reader on >secret ~* +get +watch +unwatch"}})
	s.Do("SET", "timeout:a", timeout(2, 5))
	var log bytes.Buffer
	cfg := redis.Config{
		Addresses: []string{s.Addr}, Username: "reader", Password: "secret", Watch: redis.WatchOff,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	r, err := redis.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 3 {
		if err := extend(r, "a"); !errors.Is(err, routing.ErrUnavailable) || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%v", err)
		}
	}
	if n := strings.Count(log.String(), "cannot be pushed back"); n != 1 || !strings.Contains(log.String(), "NOPERM") || strings.Contains(log.String(), "secret") {
		t.Errorf("%d lines: %s", n, &log)
	}
}

func TestAnOutageIsNoRefusal(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	var log bytes.Buffer
	cfg := at(s)
	cfg.Logger, cfg.Watch = slog.New(slog.NewTextHandler(&log, nil)), redis.WatchOff
	r, err := redis.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.Stop()
	if err := extend(r, "a"); !errors.Is(err, routing.ErrUnavailable) || log.Len() != 0 {
		t.Errorf("%v, logged: %s", err, &log)
	}
}
