package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// slots is the number of hash slots of every Redis Cluster.
const slots = 16384

// Cluster is three masters that share the slots evenly and serve what they
// have when one of them is down.
type Cluster struct {
	Nodes [3]*Server
}

// StartCluster starts three nodes and waits until each of them knows all.
func StartCluster(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{}
	for i := range c.Nodes {
		node := o
		node.Args = append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(freePort(t)),
			"--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no",
		}, o.Args...)
		c.Nodes[i] = Start(t, node)
		c.Nodes[i].Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		first, end := c.share(i)
		c.Nodes[i].Do("CLUSTER", "ADDSLOTSRANGE", first, end-1)
	}
	for _, node := range c.Nodes[1:] {
		info := node.args
		bus := info[indexOf(info, "--cluster-port")+1]
		c.Nodes[0].Do("CLUSTER", "MEET", "127.0.0.1", port(node.Addr), bus)
	}
	for _, node := range c.Nodes {
		node.await("knows the cluster", func(ctx context.Context) error {
			admin := node.Admin()
			defer admin.Close()
			info, err := admin.ClusterInfo(ctx).Result()
			for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:" + strconv.Itoa(slots), "cluster_known_nodes:3"} {
				if err == nil && !strings.Contains(info, want) {
					err = fmt.Errorf("not %s", want)
				}
			}
			return err
		})
	}
	return c
}

func (c *Cluster) share(i int) (first, end int) {
	return slots * i / len(c.Nodes), slots * (i + 1) / len(c.Nodes)
}

// Owner returns the index of the node that holds key in the beginning.
func (c *Cluster) Owner(key string) int {
	slot := int(c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64))
	for i := range c.Nodes {
		if _, end := c.share(i); slot < end {
			return i
		}
	}
	panic("unreachable")
}

// Set stores a string on the node that owns its key in the beginning.
func (c *Cluster) Set(key, value string) { c.Nodes[c.Owner(key)].Do("SET", key, value) }

// Move gives the slot of key, with the key, to the node of index to.
func (c *Cluster) Move(key string, to int) {
	c.Nodes[to].t.Helper()
	from := c.Nodes[c.Owner(key)]
	target := c.Nodes[to]
	slot := from.Do("CLUSTER", "KEYSLOT", key)
	targetID, fromID := target.Do("CLUSTER", "MYID"), from.Do("CLUSTER", "MYID")
	target.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", targetID)
	from.Do("MIGRATE", "127.0.0.1", port(target.Addr), key, 0, 5000)
	target.Do("CLUSTER", "SETSLOT", slot, "NODE", targetID)
	from.Do("CLUSTER", "SETSLOT", slot, "NODE", targetID)
}

func indexOf(list []string, s string) int {
	for i, x := range list {
		if x == s {
			return i
		}
	}
	return -1
}
