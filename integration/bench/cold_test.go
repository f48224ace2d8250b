package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// coldCalls is how many calls a turn has, each for another sandbox.
const coldCalls = 2000

// cold measures calls whose sandbox the proxy has never heard of.
func cold(s *scene, r *report) {
	all := s.start(harness.Cleartext, gateway, libraryRedis, nginxRedis)
	perSecond, withRedis, gets, others := samples{}, samples{}, samples{}, samples{}
	made := 0
	takeTurns(all, *rounds, func(t turn) {
		c := t.contestant
		ids := s.makeSandboxes(made, coldCalls)
		made += coldCalls
		clients := s.connectFor(c, ids[:connections])
		before := s.redisCalls()
		d := s.during(c, func() { s.callFor(c, clients, ids) })
		after := s.redisCalls()
		perSecond.add(t, coldCalls/d.cpu.Seconds())
		withRedis.add(t, coldCalls/(d.cpu+d.redis).Seconds())
		gets.add(t, float64(after["get"]-before["get"])/coldCalls)
		others.add(t, float64(sum(after)-sum(before)-after["get"]+before["get"]))
	})
	t := table{
		title: "Cold lookups",
		text: "The small unary call over HTTP/1.1, each for another sandbox, which no contestant has been asked for before. " +
			"Redis counts the calls. Other commands are those of a whole turn: of connections, subscriptions, and what the gateway tells ROCK of sandboxes in use.",
		head: []string{"", "requests per CPU-second", "the gateway's requests over them", "redis-server counted", "`GET`s per request", fmt.Sprintf("other commands in %d requests", coldCalls)},
	}
	for _, c := range all {
		k := c.kind
		t.rows = append(t.rows, []string{string(k), kilo(perSecond.of(k)), times(perSecond.ratio(gateway, k)), kilo(withRedis.of(k)),
			fmt.Sprintf("%.3f", gets.of(k)), whole(others.of(k))})
	}
	r.add(t)
	r.promise(promise{text: "Redis `GET`s of a request for a sandbox never seen", value: gets.of(gateway), most: 1, write: hundredths})
	s.warm(r, all[0])
}

// warm counts what Redis is asked when every route is cached.
func (s *scene) warm(r *report, c *contestant) {
	s.Helper()
	clients := s.dialAll(c, harness.Cleartext)
	s.callAll(c, clients, *turnTime)
	before, calls := s.redisCalls(), 0
	for range *rounds {
		calls += s.callAll(c, clients, *turnTime)
	}
	after := s.redisCalls()
	gets := after["get"] - before["get"]
	r.add(table{
		title: "Cached lookups",
		text:  "What Redis is asked while one sandbox is called over and over: the route is looked up again when its time in the cache is over, and not by requests.",
		head:  []string{"", "requests", "`GET`s", "all commands"},
		rows:  [][]string{{string(c.kind), fmt.Sprint(calls), fmt.Sprint(gets), fmt.Sprint(sum(after) - sum(before))}},
	})
	r.promise(promise{text: "Redis `GET`s of 1,000 requests for a cached sandbox", value: 1000 * float64(gets) / float64(calls), most: 1, write: hundredths})
}

// makeSandboxes writes the records of n sandboxes.
func (s *scene) makeSandboxes(from, n int) (ids []string) {
	s.Helper()
	admin := s.redis.Admin()
	defer admin.Close()
	_, err := admin.Pipelined(s.Context(), func(p goredis.Pipeliner) error {
		for i := from; i < from+n; i++ {
			id := fmt.Sprintf("cold%012x", i)
			ids = append(ids, id)
			p.Set(s.Context(), "alive:"+id, s.record(id), 0)
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	return ids
}

// callFor calls each sandbox once.
func (s *scene) callFor(c *contestant, clients []*client, ids []string) {
	s.Helper()
	requests := make([][]byte, len(ids))
	for i, id := range ids {
		requests[i] = callH1(c, id)
	}
	errs := make([]error, len(clients))
	var running sync.WaitGroup
	for i, k := range clients {
		running.Go(func() {
			for j := i; j < len(requests) && errs[i] == nil; j += len(clients) {
				k.request = requests[j]
				errs[i] = k.call()
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatalf("%s: %v", c.kind, err)
	}
}

// redisCalls is how often each command ran so far, that of the question itself
// apart.
func (s *scene) redisCalls() map[string]int {
	s.Helper()
	calls := map[string]int{}
	info, _ := s.redis.Do("INFO", "commandstats").(string)
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || name == "info" {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(number)
		if err != nil {
			s.Fatal(err)
		}
		calls[name] = n
	}
	return calls
}

func sum(calls map[string]int) (all int) {
	for _, n := range calls {
		all += n
	}
	return all
}
