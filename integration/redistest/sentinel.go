package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// Sentinel is a master with a replica, and one sentinel that fails over within
// about a second.
type Sentinel struct {
	// Master is the name by which the sentinel knows the pair.
	Master string
	// Addr is the sentinel's, Password its own.
	Addr, Password string
	// Primary is the first master, Replica the first replica: names of
	// processes, which keep them after a failover.
	Primary, Replica *Server

	sentinel *Server
}

// StartSentinel starts the three. o is for the two servers; its Password is
// asked for by the sentinel too.
func StartSentinel(t testing.TB, o Options) *Sentinel {
	t.Helper()
	s := &Sentinel{Master: "rock", Password: o.Password, Primary: Start(t, o)}
	replica := o
	replica.Args = append([]string{"--replicaof", "127.0.0.1", port(s.Primary.Addr)}, o.Args...)
	s.Replica = Start(t, replica)
	s.Replica.await("is in sync", func(ctx context.Context) error {
		admin := s.Replica.Admin()
		defer admin.Close()
		role, err := admin.Do(ctx, "ROLE").Slice()
		if err == nil && (len(role) < 4 || role[3] != "connected") {
			err = fmt.Errorf("its role is %v", role)
		}
		return err
	})

	dir := t.TempDir()
	p := freePort(t)
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(p))
	config := fmt.Sprintf(`bind 127.0.0.1
port %d
dir %s
logfile redis.log
sentinel monitor %s 127.0.0.1 %s 1
sentinel down-after-milliseconds %s 300
sentinel failover-timeout %s 2000
`, p, dir, s.Master, port(s.Primary.Addr), s.Master, s.Master)
	if o.Password != "" {
		config += fmt.Sprintf("requirepass %s\nsentinel auth-pass %s %s\n", o.Password, s.Master, o.Password)
	}
	file := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.sentinel = &Server{Addr: s.Addr, Password: o.Password, t: t, dir: dir}
	t.Cleanup(s.sentinel.Stop)
	s.sentinel.run("redis-server", file, "--sentinel")
	s.sentinel.await("knows the replica", func(ctx context.Context) error {
		admin := s.client()
		defer admin.Close()
		replicas, err := admin.Replicas(ctx, s.Master).Result()
		if err == nil && len(replicas) == 0 {
			err = fmt.Errorf("no replica")
		}
		return err
	})
	return s
}

func (s *Sentinel) client() *goredis.SentinelClient {
	return goredis.NewSentinelClient(&goredis.Options{Addr: s.Addr, Password: s.Password, Protocol: 2, DisableIdentity: true})
}

// Failover makes the replica the master and waits until both the sentinel and
// the replica say so. The old master goes on as a replica.
func (s *Sentinel) Failover() {
	s.sentinel.t.Helper()
	s.sentinel.await("fails over", func(ctx context.Context) error {
		admin := s.client()
		defer admin.Close()
		return admin.Failover(ctx, s.Master).Err()
	})
	s.AwaitMaster(s.Replica)
}

// AwaitMaster waits until server is the master, after a failover that the
// sentinel does by itself.
func (s *Sentinel) AwaitMaster(server *Server) {
	s.sentinel.t.Helper()
	s.sentinel.await("names the new master", func(ctx context.Context) error {
		admin := s.client()
		defer admin.Close()
		addr, err := admin.GetMasterAddrByName(ctx, s.Master).Result()
		if err == nil && (len(addr) != 2 || addr[1] != port(server.Addr)) {
			err = fmt.Errorf("it names %v", addr)
		}
		return err
	})
	server.await("is the master", func(ctx context.Context) error {
		admin := server.Admin()
		defer admin.Close()
		role, err := admin.Do(ctx, "ROLE").Slice()
		if err == nil && role[0] != "master" {
			err = fmt.Errorf("its role is %v", role[0])
		}
		return err
	})
}
