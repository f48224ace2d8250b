// Package faults breaks a sandbox's answer at every place and in every way, for
// every kind of call and every transport, and looks at every byte that the
// client gets and at how its transport ends.
//
// The clients are sockets; the sandbox is a script; what is expected stands in
// one table.
package faults

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// lines of a Caddyfile that a test cares about: in the global block, in that of
// the global option e2b, in the site.
type lines struct{ global, e2b, site string }

// open starts a gateway in front of a cluster.
func open(t *testing.T, transport harness.Transport) (*cluster, *harness.Gateway) {
	t.Helper()
	return openWith(t, transport, lines{})
}

func openWith(t *testing.T, transport harness.Transport, with lines) (*cluster, *harness.Gateway) {
	t.Helper()
	k := newCluster(t)
	k.add("alive", nil)
	g := inprocess.Start(t, fmt.Sprintf(`{
	%s
	e2b {
		keys off
		cache {
			# The machine may be busy with the cells themselves.
			lookup_timeout 10s
			patience 10s
		}
		%s
		cluster test {
			admin %s
			proxy %s
		}
	}
}
:80 {
	%s
	e2b
}
`, with.global, with.e2b, k.admin, k.proxy, with.site), transport)
	return k, g
}

// atOnce is how many cells run at a time. Most of them wait: for the registry
// to let go of a sandbox, or for a deadline.
const atOnce = 32

// Contract checklist 37, 42 to 47, 55; field reports A01, A02, A03, A04, A06, A07, A08,
// A09, A11, A12, A15 and A19.
func TestEveryFaultAtEveryPlace(t *testing.T) {
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			k, g := open(t, transport)
			send := clientOf(t, &g.Endpoint)
			kill := func(id string) { k.kill(t, &g.Endpoint, id) }
			var cells sync.WaitGroup
			slots := make(chan struct{}, atOnce)
			n := 0
			for _, kind := range kinds {
				for p := range places {
					for f := range faults {
						want := tables[kind.name][p][f]
						if want == "-" {
							continue
						}
						n++
						c := &cell{kind: kind, place: p, fault: f, want: want, sandbox: fmt.Sprintf("cell-%d", n), cluster: k, kill: kill}
						slots <- struct{}{}
						cells.Go(func() {
							defer func() { <-slots }()
							c.run(t, send)
						})
					}
				}
			}
			cells.Wait()
		})
	}
}

// cell is one field of a table.
type cell struct {
	*kind
	place   place
	fault   fault
	want    string
	sandbox string
	cluster *cluster
	kill    func(sandbox string)
}

func (c *cell) String() string {
	return fmt.Sprintf("%s, %s, %s", c.name, placeNames[c.place], faultNames[c.fault])
}

// sent are the pieces of the body that the sandbox sends before the fault. The
// last of the rows mid-prefix and mid-payload is unfinished.
func (c *cell) sent() []string {
	first, second := c.wire(c.first), c.wire(c.second)
	switch c.place {
	case afterFirst:
		return []string{first}
	case midPrefix:
		return []string{first, second[:3]}
	case midPayload:
		return []string{first, second[:len(second)-2]}
	case afterEnd:
		return []string{first, second}
	case afterClose:
		return []string{first, second, c.wire(c.close)}
	default:
		return nil
	}
}

// play is the sandbox's side.
func (c *cell) play(conn *net.TCPConn) bool {
	if c.place > beforeHead {
		_, _ = io.WriteString(conn, c.head())
		for _, piece := range c.sent() {
			_, _ = io.WriteString(conn, c.piece(piece))
		}
		if c.place == afterClose && c.trailers != "" {
			_, _ = io.WriteString(conn, "0\r\n"+c.trailers+"\r\n")
		}
	}
	switch c.fault {
	case resetG:
		c.cluster.say(c.sandbox, gone)
	case resetP:
		c.cluster.say(c.sandbox, paused)
	case fin, clean:
		// So that the search for the cause is over at once. That it also is
		// when the sandbox just stays is seen with RST.
		c.cluster.say(c.sandbox, again)
	}
	switch c.fault {
	case reset, resetG, resetP:
		_ = conn.SetLinger(0)
	case clean:
		if c.complete() {
			return true
		}
		_, _ = io.WriteString(conn, "0\r\n\r\n")
		return true
	case silence, killed:
		if c.complete() {
			return true
		}
		c.cluster.silence(c.sandbox, conn)
	}
	return false
}

// complete reports that nothing is missing of the sandbox's answer when the
// fault strikes.
func (c *cell) complete() bool { return c.place == afterClose && (c.length > 0 || c.trailers != "") }

func (c *cell) run(t *testing.T, send client) {
	c.cluster.add(c.sandbox, c.play)
	var header [][2]string
	if c.fault == silence {
		header = append(header, [2]string{"Connect-Timeout-Ms", "2000"})
	}
	silent, left := c.cluster.silent(c.sandbox)
	request := c.call(c.sandbox, header...)
	done := make(chan struct{})
	if c.fault == killed {
		// What the gateway has not read when it hears of the kill is lost, so
		// all of it must have arrived.
		arrived := make(chan struct{})
		arrive := sync.OnceFunc(func() { close(arrived) })
		if c.place == beforeHead {
			arrive()
		}
		due := len(c.delivered())
		request.progress = func(body int) {
			if body >= due {
				arrive()
			}
		}
		go func() {
			for _, ready := range []<-chan struct{}{silent, arrived} {
				select {
				case <-ready:
				case <-done:
					return
				}
			}
			c.kill(c.sandbox)
		}()
	}
	got, err := send(request)
	close(done)
	if err != nil {
		t.Errorf("%v: %v (so far %d %q)", c, err, got.status, got.body)
		return
	}
	c.expected().compare(t, c.String(), got)
	if (c.fault == silence || c.fault == killed) && !c.complete() {
		select {
		case <-left:
		case <-time.After(patience):
			t.Errorf("%v: the gateway keeps its connection to the sandbox", c)
		}
	}
}
