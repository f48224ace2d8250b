package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

const (
	// routesHeld is how many routes are in memory at once.
	routesHeld = 1_000_000
	// routesUsed is how many of them are those of sandboxes in use.
	routesUsed = 1000
	// mostPerRoute is what one may take, in bytes of heap.
	mostPerRoute = 400
	// slowest is what a lookup of one may take, in seconds.
	slowest = 200e-9
)

// routes measures the cache alone, in this process.
func routes(s *scene, r *report) {
	var perRoute, perLookup, perUse []float64
	for range min(*rounds, 3) {
		bytes, any, used := s.holdRoutes()
		perRoute, perLookup, perUse = append(perRoute, bytes), append(perLookup, any), append(perUse, used)
	}
	r.add(table{
		title: fmt.Sprintf("%d routes in memory", routesHeld),
		text: "The cache of routes alone, filled with routes as the registry in Redis makes them: with an owner and three ports, nothing shared that it does not share. " +
			"Heap is what the process holds more after them than before, garbage collected, all included. Lookups are hits in random order: of any route, none of which was " +
			fmt.Sprintf("looked up lately, and of %d of them over and over, as of sandboxes in use. What one read of as much ", routesUsed) +
			"memory costs at random, when each waits for the one before, is the machine's own speed: a lookup of any route waits for two.",
		head: []string{"", "heap for each", "CPU of a lookup, any", "of those in use", "CPU of a read of memory"},
		rows: [][]string{{"cache of routes", whole(median(perRoute)) + " bytes", nanos(median(perLookup)), nanos(median(perUse)), nanos(s.memoryRead())}},
	})
	r.promise(promise{text: "a route among 1,000,000, in bytes of heap", value: median(perRoute), most: mostPerRoute, write: whole})
	r.promise(promise{text: "a lookup of a sandbox in use among 1,000,000, in CPU", value: median(perUse), most: slowest, write: nanos})
	r.promise(promise{text: "a lookup of any among 1,000,000, in CPU", value: median(perLookup), most: slowest, write: nanos})
}

// holdRoutes fills a cache and returns the bytes of heap that a route takes, and the
// seconds of processor time that a lookup does, of any route and of one in use.
func (s *scene) holdRoutes() (perRoute, perLookup, perUse float64) {
	s.Helper()
	cache := routing.NewCache(madeRoutes{}, routing.CacheOptions{TTL: 24 * time.Hour, MaxEntries: routesHeld})
	defer cache.Close()
	before := heapHere()
	for i := range routesHeld {
		if _, _, err := cache.Lookup(s.Context(), idOf(i)); err != nil {
			s.Fatal(err)
		}
	}
	perRoute = float64(heapHere()-before) / routesHeld
	order := rand.Perm(routesHeld)
	return perRoute, s.lookUp(cache, order), s.lookUp(cache, order[:routesUsed])
}

// lookUp looks routes up, each as often as any other, and returns the seconds of
// processor time that one lookup took.
func (s *scene) lookUp(cache *routing.Cache, which []int) float64 {
	s.Helper()
	// The ids lie in memory in the order in which they are asked for, as that
	// of a request does: only the cache's own memory is visited at random.
	var order strings.Builder
	for _, i := range which {
		order.WriteString(idOf(i))
	}
	ids, length := order.String(), len(idOf(0))
	runtime.GC() // or it goes on beside what is measured
	begun := processorTime(s, os.Getpid())
	for range routesHeld / len(which) {
		for i := range which {
			if _, source, err := cache.Lookup(s.Context(), ids[i*length:(i+1)*length]); err != nil || source != routing.SourceCache {
				s.Fatal(source, err)
			}
		}
	}
	return (processorTime(s, os.Getpid()) - begun).Seconds() / routesHeld
}

// idOf is a sandbox's id as ROCK makes them.
func idOf(i int) string { return fmt.Sprintf("%016x%016x", uint64(i)*0x9E3779B97F4A7C15, i) }

// heapHere is the live heap of this process, in bytes.
func heapHere() int64 {
	runtime.GC()
	runtime.GC() // what was in pools goes with the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// madeRoutes is a registry that makes each route anew, of the parts that a record
// of ROCK's is made of.
type madeRoutes struct{}

var ownerNote = routing.Owner{Subject: subject, Key: auth.DigestOf(apiKey)}.Metadata()

func (madeRoutes) Lookup(_ context.Context, id string) (*routing.Route, error) {
	ports := routing.PortsOf(map[uint16]uint16{8080: 31003, 22555: 31004, 49983: 31005})
	return &routing.Route{
		SandboxID: id, Cluster: "bench", State: routing.StateRunning, Owner: routing.ParseOwner(strings.Clone(ownerNote)),
		Host: netip.AddrFrom4([4]byte{10, 0, 0, 5}), Ports: ports,
		Lifecycle: routing.LifecycleOf(id, "2026-12-01T18:00:00+08:00", "2026-12-01T18:00:02+08:00", "10.0.0.5", ports.String()),
	}, nil
}

// memoryReads is how many reads the cost of one is the mean of.
const memoryReads = 1 << 20

// memoryRead is what one read of memory at random costs, in seconds of processor
// time, each waiting for the one before: of as much as the routes take.
func (s *scene) memoryRead() float64 {
	s.Helper()
	const size = routesHeld * mostPerRoute / 8
	next := make([]uint64, size)
	for i := range next {
		next[i] = uint64(i)
	}
	for i := size - 1; i > 0; i-- { // one cycle through all of it: Sattolo
		j := rand.IntN(i)
		next[i], next[j] = next[j], next[i]
	}
	begun, at := processorTime(s, os.Getpid()), uint64(0)
	for range memoryReads {
		at = next[at]
	}
	took := (processorTime(s, os.Getpid()) - begun).Seconds()
	if at >= size { // so that no compiler leaves the loop out
		s.Fatal(at)
	}
	return took / memoryReads
}
