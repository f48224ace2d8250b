package redis_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/redis"
)

func TestLookupReadsJSONDocuments(t *testing.T) {
	s := redistest.StartJSON(t)
	s.Do("JSON.SET", "alive:a", "$", record("a", "1"))
	s.Do("JSON.SET", "alive:empty", "$", "{}")
	s.Do("JSON.SET", "alive:list", "$", "[]")
	s.Do("JSON.SET", "alive:null", "$", "null")
	s.Do("JSON.SET", "alive:number", "$", "7")
	s.Do("JSON.SET", "alive:stateless", "$", `{"host_ip":"10.0.0.1"}`)
	r := open(t, at(s))
	for range 2 {
		if route := want(t, r, "a", nil); route.State != routing.StateRunning || route.Ports.String() != "8080:31003 " {
			t.Fatalf("got %+v", route)
		}
		want(t, r, "unknown", routing.ErrGone)
		want(t, r, "empty", routing.ErrGone)
		want(t, r, "null", routing.ErrGone)
		want(t, r, "number", routing.ErrMalformed)
		want(t, r, "stateless", routing.ErrMalformed)
		want(t, r, "list", routing.ErrGone)
	}
}

func TestLookupOfAJSONDocumentCostsOneCommand(t *testing.T) {
	s := redistest.StartJSON(t)
	s.Do("JSON.SET", "alive:a", "$", record("a", "1"))
	r := open(t, at(s))
	for range 20 {
		want(t, r, "a", nil)
		want(t, r, "unknown", routing.ErrGone)
	}
	if n := r.Stats().Commands; n != 40 {
		t.Fatalf("%d commands for 40 lookups", n)
	}
}

// Field report F09, and the errors of RedisJSON for a key of another type, for
// which fakeredis has made-up answers instead.
func TestLookupFollowsAChangeOfStyle(t *testing.T) {
	for name, wrongType := range map[string]string{
		"RedisJSON 2.8": "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
		"RedisJSON 1.0": "-ERR Existing key has wrong Redis type\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var holds atomic.Value // the command that reads the key
			s := script(t, func(command []string) string {
				if strings.ToLower(command[0]) != holds.Load() {
					return wrongType
				}
				return bulk(record("a", "1"))
			})
			r := open(t, redis.Config{Addresses: []string{s.addr}})
			for _, command := range []string{"get", "json.get", "get"} {
				holds.Store(command)
				want(t, r, "a", nil)
				before := r.Stats().Commands
				want(t, r, "a", nil)
				if n := r.Stats().Commands - before; n != 1 {
					t.Fatalf("%d commands, once it is known that %s reads", n, command)
				}
			}
			holds.Store("hgetall")
			want(t, r, "a", routing.ErrMalformed)
		})
	}
}
