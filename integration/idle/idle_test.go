package idle

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
)

const (
	streams = 10_000
	// most is what a silent stream may cost, in bytes of resident memory: 45 KiB, and
	// what one process at rest differs from another by.
	most = 48 << 10
	// patience is how long the gateway gets to let go of what it held.
	patience = 15 * time.Second
)

// reserved are the file descriptors of a process that are not streams.
const reserved = 200

// possible is how many streams this machine can hold: each takes two file
// descriptors in the gateway and two in the test.
func possible(t *testing.T) int {
	t.Helper()
	allowed := harness.AllowFiles(t, 2*streams+reserved)
	n := min(streams, (allowed-reserved)/2)
	if n < streams {
		t.Logf("the limit of %d open files allows %d streams", allowed, n)
	}
	return n
}

func gateway(t *testing.T, u *upstream, transport harness.Transport) *harness.Process {
	t.Helper()
	return harness.Binary(t, fmt.Sprintf(`{
	e2b {
		keys off
		registry static {
			sandbox idle {
				lifecycle first
			}
		}
		cluster default {
			admin http://%[1]s
			proxy http://%[1]s
		}
	}
}
:80 {
	e2b
}
`, u.Addr()), transport)
}

// request is the call that opens a stream.
func request(t *testing.T, base string) *http.Request {
	t.Helper()
	body := envelope.Append(nil, 0, []byte(`{"process":{"cmd":"/bin/bash","args":["-l","-c","sleep 3600"]}}`))
	r, err := http.NewRequest(http.MethodPost, base+"/process.Process/Start", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/connect+json"}, "Connect-Protocol-Version": {"1"},
		"Keepalive-Ping-Interval": {"50"}, "User-Agent": {"e2b-python-sdk/2.34.0"},
		"Authorization": {"Basic dXNlcjo="}, "X-Access-Token": {"0123456789abcdef0123456789abcdef"},
		"E2b-Sandbox-Id": {"idle"}, "E2b-Sandbox-Port": {"49983"},
	}
	return r
}

// stream is a stream whose first message has arrived.
type stream struct {
	body io.Reader
	conn io.Closer
}

// openAll opens n streams, some at a time.
func openAll(t *testing.T, n int, open func() (stream, error)) []stream {
	t.Helper()
	all := make([]stream, n)
	next := make(chan int)
	var failed error
	var once sync.Once
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() {
			for i := range next {
				s, err := open()
				if err == nil {
					_, err = io.ReadFull(s.body, make([]byte, len(started)))
				}
				if err != nil {
					once.Do(func() { failed = fmt.Errorf("stream %d: %w", i, err) })
					continue
				}
				all[i] = s
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	return all
}

// finish reads every stream to its end, which must be one of the protocol.
func finish(t *testing.T, all []stream) {
	t.Helper()
	well, lost := 0, 0
	for _, s := range all {
		rest, err := io.ReadAll(s.body)
		switch {
		case err != nil:
			t.Fatalf("%q, %v", rest, err)
		case bytes.Equal(rest, endStream):
			well++
		case bytes.Contains(rest, []byte(`{"error":{"code":"aborted"`)) && rest[0] == envelope.FlagEndStream:
			lost++
		default:
			t.Fatalf("%q", rest)
		}
		s.conn.Close()
	}
	if lost != len(all)/2 || well != len(all)-lost {
		t.Fatalf("%d ended well and %d were told of the loss, of %d", well, lost, len(all))
	}
}

// overHTTP1 opens a stream on a connection of its own, without a goroutine of
// net/http's for it.
func overHTTP1(t *testing.T, base string) func() (stream, error) {
	var wire bytes.Buffer
	r := request(t, base)
	if err := r.Write(&wire); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(base, "http://")
	return func() (stream, error) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return stream{}, err
		}
		if _, err := c.Write(wire.Bytes()); err != nil {
			return stream{}, err
		}
		resp, err := http.ReadResponse(bufio.NewReaderSize(c, 512), r)
		if err != nil {
			return stream{}, err
		}
		return stream{resp.Body, c}, nil
	}
}

// Field report group C; design section 9: an idle stream holds no copy buffer.
//
// What a process holds at rest depends a little on when it has last collected
// its garbage, so it is the median of three gateways that counts.
func TestASilentStreamCostsLittleAndLeavesNothing(t *testing.T) {
	n := possible(t)
	var costs []int
	for i := range 3 {
		t.Run(fmt.Sprint("gateway ", i+1), func(t *testing.T) {
			u := newUpstream(t)
			g := gateway(t, u, harness.Cleartext)
			open := overHTTP1(t, g.URL)
			warmUp(t, g, u, open)
			before := take(t, g)

			all := openAll(t, n, open)
			per := take(t, g).perStream(before, n)
			t.Logf("%d silent streams over HTTP/1.1: %s each", n, per)
			costs = append(costs, per.resident)

			u.endAll()
			finish(t, all)
			backTo(t, g, before)
		})
	}
	slices.Sort(costs)
	if len(costs) != 3 || costs[1] > most {
		t.Errorf("a silent stream costs %v bytes of resident memory, the second of them more than %d", costs, most)
	}
}

func TestSilentStreamsOverHTTP2LeaveNothing(t *testing.T) {
	const n = streams // they share connections, so that any machine can hold them
	possible(t)
	u := newUpstream(t)
	g := gateway(t, u, harness.TLS2)
	client := g.Client()
	open := func() (stream, error) {
		resp, err := client.Do(request(t, g.URL))
		if err != nil {
			return stream{}, err
		}
		if resp.ProtoMajor != 2 {
			return stream{}, fmt.Errorf("%s", resp.Proto)
		}
		return stream{resp.Body, resp.Body}, nil
	}
	warmUp(t, g, u, open)
	client.CloseIdleConnections()
	before := take(t, g)

	all := openAll(t, n, open)
	per := take(t, g).perStream(before, n)
	t.Logf("%d silent streams over HTTP/2 and TLS: %s each", n, per)
	if per.resident > most {
		t.Errorf("a silent stream costs %d bytes of resident memory, more than %d", per.resident, most)
	}

	u.endAll()
	finish(t, all)
	client.CloseIdleConnections()
	backTo(t, g, before)
}

// warmUp lets the gateway take what it keeps whatever comes.
func warmUp(t *testing.T, g *harness.Process, u *upstream, open func() (stream, error)) {
	t.Helper()
	all := openAll(t, 64, open)
	u.endAll()
	finish(t, all)
}

// usage is what a process holds.
type usage struct {
	resident, goroutines, sockets int
}

func (u usage) String() string {
	return fmt.Sprintf("%.1f KiB resident, %d goroutines, %d sockets", float64(u.resident)/1024, u.goroutines, u.sockets)
}

func (u usage) perStream(before usage, n int) usage {
	return usage{(u.resident - before.resident) / n, (u.goroutines - before.goroutines) / n, (u.sockets - before.sockets) / n}
}

// take measures a process at rest: what it has used and will not use again, such
// as for opening the streams, it is asked to give back first. Pools give back at the
// second collection, and each one halves the stacks that are too large; a process
// collects every two minutes by itself.
func take(t *testing.T, g *harness.Process) usage {
	t.Helper()
	for range 3 {
		read(t, g, "heap?gc=1")
	}
	const still = 5 // looks without a change of more than 0.5 %
	limit := time.After(patience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for last, same := resident(t, g.PID()), 0; same < still; {
		select {
		case <-tick.C:
		case <-limit:
			same = still
		}
		now := resident(t, g.PID())
		if same++; now < last-last/200 {
			same = 0
		}
		last = now
	}
	return usage{resident(t, g.PID()), goroutines(t, g), sockets(t, g.PID())}
}

// resident reads VmRSS, in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

func sockets(t *testing.T, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// goroutines reads the first line of Caddy's goroutine profile.
func goroutines(t *testing.T, g *harness.Process) int {
	t.Helper()
	n := 0
	if _, err := fmt.Sscanf(read(t, g, "goroutine?debug=1"), "goroutine profile: total %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// read reads one of Caddy's profiles.
func read(t *testing.T, g *harness.Process, profile string) string {
	t.Helper()
	resp, err := http.Get(g.AdminURL() + "/debug/pprof/" + profile)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// backTo waits until the gateway holds no more than before: it lets go of
// connections in its own time.
func backTo(t *testing.T, g *harness.Process, before usage) {
	t.Helper()
	deadline := time.Now().Add(patience)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		goroutines, sockets := goroutines(t, g), sockets(t, g.PID())
		if goroutines <= before.goroutines && sockets <= before.sockets {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines and %d sockets are left, %d and %d were there before\n%s",
				goroutines, sockets, before.goroutines, before.sockets, read(t, g, "goroutine?debug=1"))
		}
		<-poll.C
	}
}
