package scale

import (
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/integration/redistest"
)

// meter reads what Redis and the gateways have done so far.
type meter struct {
	t     testing.TB
	redis *goredis.Client
	own   cost // of a reading
}

func newMeter(t testing.TB, s *redistest.Server) *meter {
	m := &meter{t: t, redis: s.Admin()}
	t.Cleanup(func() { m.redis.Close() })
	m.read() // opens the connection
	const readings = 20
	before := m.read()
	for range readings {
		m.read()
	}
	m.own = m.since(before)
	m.own.in /= readings + 1
	m.own.out /= readings + 1
	m.own.allocations /= readings + 1
	m.own.redis /= readings + 1
	m.own.gateways /= readings + 1
	return m
}

// reading is what was done until some moment. The gateways are this process, with whoever asks them.
type reading struct {
	commands        map[string]int // by name
	in, out         int64          // bytes of Redis
	redis, gateways time.Duration  // on processors
	allocations     uint64         // of the gateways
}

func (m *meter) read() reading {
	m.t.Helper()
	info, err := m.redis.Info(m.t.Context(), "stats", "commandstats", "cpu").Result()
	if err != nil {
		m.t.Fatal(err)
	}
	r := reading{commands: map[string]int{}}
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "total_net_input_bytes":
			r.in = number[int64](m.t, value)
		case "total_net_output_bytes":
			r.out = number[int64](m.t, value)
		case "used_cpu_sys", "used_cpu_user":
			r.redis += time.Duration(number[float64](m.t, value) * float64(time.Second))
		default:
			if name, ok := strings.CutPrefix(key, "cmdstat_"); ok && !strings.HasPrefix(name, "info") && !strings.HasPrefix(name, "pubsub") {
				calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
				r.commands[name] = number[int](m.t, calls)
			}
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		m.t.Fatal(err)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.allocations = memory.Mallocs
	r.gateways = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return r
}

func number[N int | int64 | float64](t testing.TB, s string) N {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return N(f)
}

// cost is what was done between two readings.
type cost reading

// since is what was done since an earlier reading, the meter's own part left out.
func (m *meter) since(before reading) cost {
	m.t.Helper()
	now := m.read()
	c := cost{
		commands:    map[string]int{},
		in:          now.in - before.in - m.own.in,
		out:         now.out - before.out - m.own.out,
		allocations: now.allocations - before.allocations - m.own.allocations,
		redis:       max(now.redis-before.redis-m.own.redis, 0),
		gateways:    max(now.gateways-before.gateways-m.own.gateways, 0),
	}
	for name, calls := range now.commands {
		if n := calls - before.commands[name]; n != 0 {
			c.commands[name] = n
		}
	}
	return c
}
