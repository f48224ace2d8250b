package readme

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/limit/share"
	keystore "github.com/caddy-e2b/gateway/auth/redis"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// The user of the README's ACL line may do all that a gateway does in Redis,
// and nothing else.
func TestTheRedisUserOfTheREADMEIsEnoughAndNotTooMuch(t *testing.T) {
	line := regexp.MustCompile("`ACL SETUSER (gateway on >SECRET [^`]+)`").FindStringSubmatch(read(t))
	if line == nil {
		t.Fatal("the README has no ACL line")
	}
	s := redistest.Start(t, redistest.Options{Users: []string{line[1]}})
	digest := auth.DigestOf("e2b_00")
	s.Do("HSET", keystore.DefaultPrefix+digest.String(), "subject", "alice")
	s.Do("SET", "alive:a", `{"sandbox_id": "a", "state": "running"}`)
	s.Do("SET", "timeout:a", `{"auto_clear_time":"2","expire_time":"5"}`)
	s.Do("SET", "other", "secret")
	cfg := redis.Config{Addresses: []string{s.Addr}, Username: "gateway", Password: "SECRET", Watch: redis.WatchTracking}

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	registry, err := redis.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	if _, err := registry.Lookup(ctx, "a"); err != nil {
		t.Errorf("registry redis: %v", err)
	}
	if err := registry.Extend(ctx, &routing.Route{SandboxID: "a"}); err != nil {
		t.Errorf("activity: %v", err)
	}
	if end, _ := s.Do("GET", "timeout:a").(string); end == "" || strings.Contains(end, `"5"`) {
		t.Errorf("activity: %q", end)
	}
	changes := make(chan string, 100)
	watching := make(chan struct{})
	watchContext, stopWatching := context.WithCancel(ctx)
	go func() {
		defer close(watching)
		registry.Watch(watchContext, func(id string) { changes <- id })
	}()
	heard(t, ctx, "watch tracking", changes, "")
	s.Do("SET", "alive:a", `{"sandbox_id": "a", "state": "stopped"}`)
	heard(t, ctx, "watch tracking", changes, "a")
	stopWatching()
	<-watching

	store, err := keystore.New(cfg, "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if key, err := store.Lookup(ctx, digest); err != nil || key.Subject != "alice" {
		t.Errorf("keys redis: %v, %v", key, err)
	}

	client, err := redis.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	messages := make(chan string, 100)
	listening := make(chan struct{})
	listenContext, stopListening := context.WithCancel(ctx)
	go func() {
		defer close(listening)
		_ = client.Listen(listenContext, share.Channel+"0:", func(m string) { messages <- m })
	}()
	again := time.NewTicker(20 * time.Millisecond) // whoever does not listen yet misses it
	defer again.Stop()
	for done := false; !done; {
		if err := client.Publish(ctx, share.Channel+"0:", []byte("m")); err != nil {
			t.Errorf("limits: %v", err)
			break
		}
		select {
		case <-messages:
			done = true
		case <-again.C:
		case <-ctx.Done():
			t.Error("limits: nothing is heard")
			done = true
		}
	}
	stopListening()
	<-listening

	admin := s.Admin()
	defer admin.Close()
	for _, forbidden := range []string{
		"GET other", "SET alive:a x", "SET other x", "DEL timeout:a", "EXPIRE timeout:a 1", "DEL alive:a", "KEYS *", "SCAN 0", "CONFIG GET *", "ACL LIST", "FLUSHALL", "SUBSCRIBE other",
		"PUBLISH other m", "HSET e2b-gateway:key:0 subject eve", "EVAL return 0", "MONITOR",
	} {
		args := []any{"ACL", "DRYRUN", "gateway"}
		for _, word := range strings.Fields(forbidden) {
			args = append(args, word)
		}
		if strings.HasPrefix(forbidden, "EVAL") {
			args = append(args, "0")
		}
		if answer, err := admin.Do(ctx, args...).Text(); err != nil || answer == "OK" {
			t.Errorf("%s: %q, %v", forbidden, answer, err)
		}
	}
}

func heard(t *testing.T, ctx context.Context, what string, changes <-chan string, id string) {
	t.Helper()
	for {
		select {
		case got := <-changes:
			if got == id {
				return
			}
		case <-ctx.Done():
			t.Fatalf("%s: no change of %q", what, id)
		}
	}
}
