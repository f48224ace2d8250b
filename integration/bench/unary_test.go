package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness"
)

// connections is how many clients there are at a time.
const connections = 16

// unaryH1: what a fleet does most.
func unaryH1(s *scene, r *report) {
	all := s.start(harness.Cleartext, gateway, gatewayLogged, respond, stock, stockBare, library, libraryRedis, nginx, nginxRedis, haproxy)
	clients := map[*contestant][]*client{}
	for _, c := range all {
		clients[c] = s.dialAll(c)
		s.callAll(c, clients[c], *turn) // warms it up
	}
	perSecond, withRedis, busy := samples{}, samples{}, samples{}
	takeTurns(all, *rounds, func(c *contestant) {
		var calls int
		d := s.during(c, func() { calls = s.callAll(c, clients[c], *turn) })
		perSecond.add(c.kind, float64(calls)/d.cpu.Seconds())
		withRedis.add(c.kind, float64(calls)/(d.cpu+d.redis).Seconds())
		busy.add(c.kind, d.busy())
	})
	t := table{
		title: "Small unary call, HTTP/1.1",
		text: fmt.Sprintf("`POST` with %d bytes of JSON, as the SDK sends it; %d bytes of JSON come back. %d connections, kept. Two of the contestants ask Redis "+
			"for each request; redis-server's own time comes on top of theirs, and stands in the column beside.", len(callBody), len(answer), connections),
		head: []string{"", "requests per CPU-second", "CPU per request", "the gateway's requests, as a ratio", "redis-server counted", "busy"},
	}
	for _, c := range all {
		k := c.kind
		t.rows = append(t.rows, []string{string(k), kilo(perSecond.of(k)), micros(1 / perSecond.of(k)), times(perSecond.ratio(gateway, k)),
			kilo(withRedis.of(k)), share(busy.of(k))})
	}
	r.add(t)
	r.promise(promise{text: "small unary call, HTTP/1.1: requests per CPU-second over stock Caddy's", value: perSecond.ratio(gateway, stock), least: 2, write: times})
	r.promise(promise{text: "the same over those of a Go proxy with one Redis `GET` per request", value: perSecond.ratio(gateway, libraryRedis), least: 2, write: times})
	r.promise(promise{text: "the same: CPU over that of `respond`", value: perSecond.ratio(respond, gateway), most: 1.4, write: times})
}

// callBody is the message of a unary call.
const callBody = `{"path":"/home/user/a.txt"}`

// callTo is a unary call as Python's SDK sends it.
func callTo(c *contestant, sandboxID string) []byte {
	path := "/filesystem.Filesystem/Stat"
	if c.kind == respond {
		path = floorPath
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"+
		"User-Agent: connect-python/0.6.0 (CPython/3.11)\r\nConnect-Protocol-Version: 1\r\nContent-Type: application/json\r\n"+
		"Authorization: Basic dXNlcjo=\r\nX-Access-Token: %s\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\nContent-Length: %d\r\n\r\n%s",
		path, c.address, tokens.Mint(auth.AccessToken, sandboxID, subject), sandboxID, len(callBody), callBody)
}

// client is a connection that calls, one call after the other.
type client struct {
	net.Conn
	in      reader
	request []byte
}

func (s *scene) dialAll(c *contestant) []*client {
	s.Helper()
	all := make([]*client, connections)
	for i := range all {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { conn.Close() })
		all[i] = &client{conn, reader{conn: conn, buf: make([]byte, 4<<10)}, callTo(c, sandbox)}
	}
	return all
}

var statusOK = []byte("HTTP/1.1 200 ")

// call sends the request and checks the answer.
func (c *client) call() error {
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	head, err := c.in.head()
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(head, statusOK) {
		return fmt.Errorf("%s", head)
	}
	body, err := c.in.body(len(answer))
	if err != nil {
		return err
	}
	if !bytes.Equal(body, answer) || c.in.begin != c.in.end {
		return errors.New("another answer than the upstream's")
	}
	return nil
}

// callAll lets all clients call for a time and returns how many calls that made.
func (s *scene) callAll(c *contestant, clients []*client, length time.Duration) int {
	s.Helper()
	var over atomic.Bool
	time.AfterFunc(length, func() { over.Store(true) })
	counts, errs := make([]int, len(clients)), make([]error, len(clients))
	var running sync.WaitGroup
	for i, client := range clients {
		running.Go(func() {
			for !over.Load() && errs[i] == nil {
				errs[i] = client.call()
				counts[i]++
			}
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatalf("%s: %v", c.kind, err)
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}
