package redis_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// Field report G01.
func TestSentinelFailover(t *testing.T) {
	pair := redistest.StartSentinel(t, redistest.Options{Password: "s3cret-pass"})
	pair.Primary.Do("SET", "alive:a", record("a", "1"))
	r := open(t, redis.Config{
		Addresses: []string{pair.Addr}, Password: "s3cret-pass", Watch: redis.WatchTracking,
		Sentinel: &redis.Sentinel{Master: pair.Master, Password: pair.Password},
	})
	ch := watch(t, r)
	ch.next(t, "")
	want(t, r, "a", nil)
	life := func(lifecycle string) {
		t.Helper()
		eventually(t, 3*time.Second, func() error {
			route, err := r.Lookup(t.Context(), "a")
			if errors.Is(err, routing.ErrGone) {
				t.Fatal("a failover makes a sandbox gone")
			}
			if err == nil && route.Lifecycle != lifecycleOf(t, lifecycle) {
				err = fmt.Errorf("an old record: %+v", route)
			}
			return err
		})
	}

	// Ordered: both servers stay up, the old master becomes a replica.
	pair.Failover()
	pair.Replica.Do("SET", "alive:a", record("a", "2"))
	life("2")
	ch.next(t, "")
	ch.drain()
	pair.Replica.Do("SET", "alive:a", record("a", "3"))
	life("3")
	ch.next(t, "a")
}

func TestSentinelFailoverOfADeadMaster(t *testing.T) {
	pair := redistest.StartSentinel(t, redistest.Options{})
	pair.Primary.Do("SET", "alive:a", record("a", "1"))
	pair.Primary.Do("WAIT", 1, 5000)
	r := open(t, redis.Config{Addresses: []string{pair.Addr}, Sentinel: &redis.Sentinel{Master: pair.Master}})
	want(t, r, "a", nil)
	pair.Primary.Stop()
	want(t, r, "a", routing.ErrUnavailable)
	pair.AwaitMaster(pair.Replica)
	eventually(t, 2*time.Second, func() error { _, err := r.Lookup(t.Context(), "a"); return err })
}

// lifecycleOf is what record gives sandbox a for a lifecycle.
func lifecycleOf(t testing.TB, lifecycle string) string {
	t.Helper()
	return routing.LifecycleOf("a", "", lifecycle, "10.0.0.5", "8080:31003 ")
}

// Field report G07.
func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{Args: []string{"--notify-keyspace-events", "KEA"}})
	ids := make([]string, 30)
	nodes := map[int]string{}
	for i := range ids {
		ids[i] = fmt.Sprintf("sbx-%d", i)
		c.Set("alive:"+ids[i], record(ids[i], "1"))
		nodes[c.Owner("alive:"+ids[i])] = ids[i]
	}
	if len(nodes) != 3 {
		t.Fatalf("the ids are on %d nodes only", len(nodes))
	}
	for _, kind := range []string{redis.WatchTracking, redis.WatchKeyspace} {
		r := open(t, redis.Config{Addresses: []string{c.Nodes[0].Addr}, Cluster: true, Watch: kind})
		for _, id := range ids {
			want(t, r, id, nil)
		}
		want(t, r, "unknown", routing.ErrGone)

		ch := watch(t, r)
		for range c.Nodes {
			ch.next(t, "")
		}
		for _, id := range nodes {
			c.Set("alive:"+id, record(id, "2"))
			ch.next(t, id)
		}
	}

	r := open(t, redis.Config{Addresses: []string{c.Nodes[0].Addr, c.Nodes[1].Addr}, Cluster: true})
	t.Run("slot moves", func(t *testing.T) {
		moved := nodes[0]
		want(t, r, moved, nil)
		c.Move("alive:"+moved, 1)
		for range 3 {
			want(t, r, moved, nil)
		}
		for _, id := range ids {
			want(t, r, id, nil)
		}
	})
	t.Run("node dies", func(t *testing.T) {
		c.Nodes[2].Stop()
		dead := nodes[2]
		for _, id := range ids {
			if c.Owner("alive:"+id) != 2 {
				want(t, r, id, nil)
			}
		}
		want(t, r, dead, routing.ErrUnavailable)
	})
}

// What of the README's ACL line is for a registry in a Redis Cluster.
func TestClusterAsACLUser(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{Users: []string{
		"gateway on >s3cret-pass resetchannels ~alive:* &__redis__:invalidate -@all +get +ping +subscribe +client|id +client|tracking +cluster|slots +cluster|shards",
	}})
	c.Set("alive:a", record("a", "1"))
	var addresses []string
	for _, node := range c.Nodes {
		addresses = append(addresses, node.Addr)
	}
	r := open(t, redis.Config{Addresses: addresses, Cluster: true, Username: "gateway", Password: "s3cret-pass", Watch: redis.WatchTracking})
	changes := watch(t, r)
	changes.next(t, "")
	want(t, r, "a", nil)
	want(t, r, "unknown", routing.ErrGone)
	changes.drain()
	c.Set("alive:a", record("a", "2"))
	changes.next(t, "a")
}
