package redis_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/loopback"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// name is what a DNS name or a virtual address is to a client: connections lead to the
// server that it stands for when they are made, and stay there.
type name struct {
	address string
	server  atomic.Pointer[redistest.Server]
}

func newName(t *testing.T, s *redistest.Server) *name {
	t.Helper()
	n := &name{}
	n.server.Store(s)
	n.address = loopback.Serve(t, func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("tcp", n.server.Load().Addr)
		if err != nil {
			return
		}
		t.Cleanup(func() { server.Close() })
		go func() {
			_, _ = io.Copy(server, client)
			server.Close()
		}()
		_, _ = io.Copy(client, server)
	})
	return n
}

// Field report G01: behind one name the old master stays up as a replica, and the
// connections that lead to it with it. It refuses to write; reading goes on.
func TestAfterAFailoverBehindOneNameWritesReachTheNewMaster(t *testing.T) {
	old, next := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	n := newName(t, old)
	r := open(t, redis.Config{Addresses: []string{n.address}})
	soon := time.Now().Unix() + 5
	for _, s := range []*redistest.Server{old, next} {
		s.Do("SET", "alive:a", record("a", "1"))
		s.Do("SET", "timeout:a", timeout(2, soon))
	}
	burst(t, r, 10) // connections that lead to the old master
	if err := extend(r, "a"); err != nil {
		t.Fatal(err)
	}

	old.Do("SET", "timeout:a", timeout(2, soon)) // something to write
	host, port, _ := net.SplitHostPort(next.Addr)
	old.Do("REPLICAOF", host, port)
	n.server.Store(next)
	eventually(t, 3*time.Second, func() error {
		want(t, r, "a", nil) // whoever is asked
		return extend(r, "a")
	})
	if _, end := (keeper{next, false}).read(t, "timeout:a"); end <= soon {
		t.Errorf("the new master has %d still", end)
	}
}
