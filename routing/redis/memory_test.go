package redis

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

var routes = flag.Int("routes", 20_000, "how many routes are remembered to measure what one takes")

// fleet is a registry of as many sandboxes as one asks for, whose records are such as
// ROCK and the gateway write: with three ports, an owner, notes and metadata.
type fleet struct{}

func sandboxOf(i int) string { return fmt.Sprintf("%024x%08x", uint64(i)*0x9e3779b97f4a7c15, i) }

func (fleet) Lookup(_ context.Context, id string) (*routing.Route, error) {
	i, err := strconv.ParseUint(id[24:], 16, 32)
	if err != nil {
		return nil, err
	}
	return parseRecord(id, recordOf(id, i), Fields{}.withDefaults(), nil)
}

func recordOf(id string, i uint64) []byte {
	subject := fmt.Sprint("team-", i%1000)
	owner := routing.Owner{Subject: subject, Key: [32]byte{byte(i), byte(i >> 8)}}
	return fmt.Appendf(nil, `{"sandbox_id":%q,"host_ip":"10.%d.%d.%d","host_name":"ray-worker-7","image":"python:3.12",
		"user_id":"u-1001","cpus":2,"memory":"8g","state":"running","port_mapping":{"22":%d,"8080":%d,"22555":%d},
		"metadata":{%q:%q,%q:%q,"job":"swe-bench-%[4]d"},
		"create_time":"2026-08-21T14:12:%02[12]d+08:00","start_time":"2026-08-21T14:12:44+08:00"}`,
		id, i>>16%256, i>>8%256, i%256, 30000+i%1000, 31000+i%1000, 32000+i%1000,
		routing.MetadataOwner, owner.Metadata(), routing.MetadataSubject, subject, i%60)
}

func heap() (bytes, objects uint64) {
	runtime.GC()
	runtime.GC() // what the first one found to be finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.HeapObjects
}

// processorTime is the time that the process has spent on processors.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// All of it: the route and its strings, the answer around it, and its part of the
// cache's index.
func TestARouteTakesAtMost400Bytes(t *testing.T) {
	bytes, objects := heap()
	c := routing.NewCache(fleet{}, routing.CacheOptions{TTL: time.Hour, MaxEntries: *routes})
	defer c.Close()
	for i := range *routes {
		route, _, err := c.Lookup(t.Context(), sandboxOf(i))
		if err != nil || route.Ports.Len() != 3 || !strings.HasPrefix(route.Owner.Subject, "team-") {
			t.Fatalf("%+v, %v", route, err)
		}
	}
	after, objectsAfter := heap()
	each := (after - bytes) / uint64(*routes)
	if each > 400 {
		t.Errorf("%d bytes", each)
	}
	var collections []time.Duration
	for range 5 {
		begun := processorTime(t)
		runtime.GC()
		collections = append(collections, processorTime(t)-begun)
	}
	slices.Sort(collections)
	t.Logf("%d routes: %d bytes and %.1f objects each, a collection of all takes %v of processor", c.Stats().Entries, each,
		float64(objectsAfter-objects)/float64(*routes), collections[2].Round(time.Millisecond))
}

// What a lookup costs beside its way to Redis and back.
func BenchmarkReadARecord(b *testing.B) {
	id, names := sandboxOf(7), Fields{}.withDefaults()
	record := recordOf(id, 7)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseRecord(id, record, names, nil); err != nil {
			b.Fatal(err)
		}
	}
}
