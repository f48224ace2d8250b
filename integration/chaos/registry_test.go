package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// store is the Redis of a world: one of the three, none with the registry control.
type store struct {
	one    *redistest.Server
	pair   *redistest.Sentinel
	shards *redistest.Cluster
	wire   *wire // to the one
	config string
	client goredis.UniversalClient
}

func newStore(t testing.TB, r registry) *store {
	t.Helper()
	s := &store{}
	const small = "pool_size 4\n timeout 500ms\n"
	switch r {
	case plain:
		s.one = redistest.Start(t, redistest.Options{})
		s.wire = newWire(t, s.one.Addr)
		s.config = fmt.Sprintf("redis {\n address %s\n %s}", s.wire.address, small)
		s.client = goredis.NewClient(&goredis.Options{Addr: s.one.Addr, ContextTimeoutEnabled: true})
	case sentinel:
		s.pair = redistest.StartSentinel(t, redistest.Options{})
		s.config = fmt.Sprintf("redis {\n address %s\n sentinel_master %s\n %s}", s.pair.Addr, s.pair.Master, small)
		s.client = goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: s.pair.Master, SentinelAddrs: []string{s.pair.Addr}, ContextTimeoutEnabled: true,
		})
	case sharded:
		s.shards = redistest.StartCluster(t, redistest.Options{})
		var all []string
		for _, n := range s.shards.Nodes {
			all = append(all, n.Addr)
		}
		s.config = fmt.Sprintf("redis {\n address %s %s %s\n cluster\n %s}", all[0], all[1], all[2], small)
		s.client = goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: all, ContextTimeoutEnabled: true})
	default:
		s.config = "control"
		return s
	}
	t.Cleanup(func() { s.client.Close() })
	return s
}

// keeper writes ROCK's records, and keeps them to write them again when the Redis has lost them.
type keeper struct {
	rock.Records
	mu      sync.Mutex
	docs    map[string]any
	changes int
	// writing is held while a key is changed here and there, so that nobody writes what is no longer so.
	writing sync.Map // of *sync.Mutex
}

func newKeeper(s *store) *keeper {
	k := &keeper{docs: map[string]any{}}
	if k.Records = rock.NewMemoryRecords(); s.client != nil {
		k.Records = rock.RedisStrings{Client: s.client}
	}
	return k
}

// only keeps others from writing a key until it is released.
func (k *keeper) only(key string) (release func()) {
	m, _ := k.writing.LoadOrStore(key, new(sync.Mutex))
	m.(*sync.Mutex).Lock()
	return m.(*sync.Mutex).Unlock
}

// Set implements rock.Records.
func (k *keeper) Set(ctx context.Context, key string, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	defer k.only(key)()
	k.mu.Lock()
	k.docs[key] = json.RawMessage(b)
	k.changes++
	k.mu.Unlock()
	return k.Records.Set(ctx, key, json.RawMessage(b))
}

// Del implements rock.Records.
func (k *keeper) Del(ctx context.Context, keys ...string) error {
	for _, key := range keys { // ROCK names them in one order
		defer k.only(key)()
	}
	k.mu.Lock()
	for _, key := range keys {
		delete(k.docs, key)
	}
	k.changes++
	k.mu.Unlock()
	return k.Records.Del(ctx, keys...)
}

// restore writes what should be there, until it is, and nothing has changed meanwhile: ROCK tries once, and a sandbox whose record says
// for ever that it starts is waited for.
func (k *keeper) restore(t testing.TB) {
	t.Helper()
	for before := -1; ; {
		k.mu.Lock()
		changes, keys := k.changes, slices.Collect(maps.Keys(k.docs))
		k.mu.Unlock()
		if changes == before {
			return
		}
		before = changes
		for _, key := range keys {
			if err := k.settle(key); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// settle makes a record what ROCK wants it to be.
func (k *keeper) settle(key string) error {
	defer k.only(key)()
	k.mu.Lock()
	doc, there := k.docs[key]
	k.mu.Unlock()
	return insist(func(ctx context.Context) error {
		if there {
			return k.Records.Set(ctx, key, doc)
		}
		return k.Records.Del(ctx, key)
	})
}

// insist repeats what a Redis may refuse while it finds itself again.
func insist(do func(context.Context) error) (err error) {
	for begun := time.Now(); time.Since(begun) < patience; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err = do(ctx)
		cancel()
		if err == nil {
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
	return fmt.Errorf("the registry takes no records: %w", err)
}

// move gives the slot of a sandbox's record, with what is in it, to another node of the Cluster.
func (s *store) move(t testing.TB, key string, to int) {
	slot := s.shards.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64)
	from := -1
	if !within(patience, func() bool { from = s.owner(slot); return from >= 0 }) {
		t.Fatalf("the nodes do not agree who has slot %d", slot)
	}
	if from != to {
		reshard(s.shards.Nodes[:], slot, from, to)
	}
}

// owner is the node that says that a slot is its own, -1 as long as it is not exactly one, or the nodes have not all heard of the last move:
// one that takes a slot under an epoch which another has taken already loses it, and then nobody has it.
func (s *store) owner(slot int64) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, epochs := -1, map[string]bool{}
	for i, n := range s.shards.Nodes {
		admin := n.Admin()
		shards, err := admin.ClusterShards(ctx).Result()
		info, failed := admin.ClusterInfo(ctx).Result()
		admin.Close()
		_, epoch, _ := strings.Cut(info, "cluster_current_epoch:")
		epoch, _, _ = strings.Cut(epoch, "\r\n")
		if epochs[epoch] = true; err != nil || failed != nil || len(epochs) > 1 {
			return -1
		}
		if !slices.ContainsFunc(shards, func(sh goredis.ClusterShard) bool {
			return len(sh.Nodes) > 0 && fmt.Sprint(sh.Nodes[0].Port) == portOf(n.Addr) && slices.ContainsFunc(sh.Slots, func(r goredis.SlotRange) bool {
				return r.Start <= slot && slot <= r.End
			})
		}) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}

func reshard(nodes []*redistest.Server, slot int64, from, to int) {
	source, target := nodes[from], nodes[to]
	sourceID, targetID := source.Do("CLUSTER", "MYID"), target.Do("CLUSTER", "MYID")
	target.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID)
	source.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", targetID)
	keys, _ := source.Do("CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
	for _, k := range keys {
		source.Do("MIGRATE", "127.0.0.1", portOf(target.Addr), k, 0, 5000)
	}
	for _, n := range []*redistest.Server{target, source} {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", targetID)
	}
	for i, n := range nodes {
		if i != from && i != to {
			n.Do("CLUSTER", "SETSLOT", slot, "NODE", targetID)
		}
	}
}
