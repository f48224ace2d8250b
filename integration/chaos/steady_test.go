package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/integration/redistest"
)

// await waits until the Redis of a world has found itself again: after a failover, and after one that the sentinel has made of its own
// accord because a master was stopped for too long. What is written before that may be lost, by Redis and not by anybody here.
func (s *store) await(w *world) {
	var err error
	if !within(patience, func() bool { err = s.steady(); return err == nil }) {
		w.Fatalf("the registry does not come to rest: %v", err)
	}
}

func (s *store) steady() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	switch {
	case s.pair != nil:
		return s.steadyPair(ctx)
	case s.shards != nil:
		for _, n := range s.shards.Nodes {
			admin := n.Admin()
			info, err := admin.ClusterInfo(ctx).Result()
			admin.Close()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:16384") {
				return fmt.Errorf("%s: %q, %w", n.Addr, info, err)
			}
		}
	}
	return nil
}

// steadyPair reports whether one of the two is the master, to the sentinel too, and the other its replica with all that it has. It calls
// them by what they are.
func (s *store) steadyPair(ctx context.Context) error {
	sentinel := goredis.NewSentinelClient(&goredis.Options{Addr: s.pair.Addr, Protocol: 2, DisableIdentity: true})
	defer sentinel.Close()
	addr, err := sentinel.GetMasterAddrByName(ctx, s.pair.Master).Result()
	if err != nil || len(addr) != 2 {
		return fmt.Errorf("the sentinel says %v, %w", addr, err)
	}
	master, replica := s.pair.Primary, s.pair.Replica
	if portOf(replica.Addr) == addr[1] {
		master, replica = replica, master
	}
	for server, want := range map[*redistest.Server]string{
		master:  "role:master connected_slaves:1",
		replica: "role:slave master_link_status:up master_port:" + addr[1],
	} {
		admin := server.Admin()
		info, err := admin.Info(ctx, "replication").Result()
		admin.Close()
		for _, line := range strings.Fields(want) {
			if err != nil || !strings.Contains(info, line) {
				return fmt.Errorf("%s is not %s: %q, %w", server.Addr, line, info, err)
			}
		}
	}
	s.pair.Primary, s.pair.Replica = master, replica
	return nil
}
