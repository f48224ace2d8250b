package redis_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// scripted is a server that answers each command as told; an empty answer
// closes the connection.
type scripted struct {
	addr        string
	connections atomic.Int32
}

func script(t *testing.T, answer func(command []string) string) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{addr: l.Addr().String()}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			t.Cleanup(func() { conn.Close() })
			go s.serve(conn, answer)
		}
	}()
	return s
}

func (s *scripted) serve(conn net.Conn, answer func([]string) string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		a := answer(command)
		if a == "" {
			return
		}
		if _, err := io.WriteString(conn, a); err != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func(kind byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != kind {
			return 0, fmt.Errorf("%q", line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	var command []string
	for range n {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		command = append(command, string(b[:size]))
	}
	return command, nil
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// Field report F12: none of these says that a sandbox is gone.
func TestErrorsOfRedisAreDontKnow(t *testing.T) {
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory",
		"CLUSTERDOWN The cluster is down",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"READONLY You can't write against a read only replica.",
		"NOAUTH Authentication required.",
		"NOPERM this user has no permissions to run the 'get' command",
		"ERR max number of clients reached",
		"ERR something",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"BUSY Redis is busy running a script.",
		"OOM command not allowed when used memory > 'maxmemory'.",
	} {
		t.Run(strings.Fields(text)[0], func(t *testing.T) {
			s := script(t, func([]string) string { return "-" + text + "\r\n" })
			r := open(t, redis.Config{Addresses: []string{s.addr}})
			start := time.Now()
			want(t, r, "a", routing.ErrUnavailable)
			if d := time.Since(start); d > 900*time.Millisecond {
				t.Errorf("took %v", d)
			}
		})
	}
}

// Field report G06.
func TestProxyThatClosesOnHello(t *testing.T) {
	s := script(t, func(c []string) string {
		switch strings.ToUpper(c[0]) {
		case "AUTH":
			return "+OK\r\n"
		case "GET":
			return bulk(record("a", "1"))
		case "JSON.GET":
			return "-ERR unknown command 'JSON.GET'\r\n"
		default:
			return ""
		}
	})
	want(t, open(t, redis.Config{Addresses: []string{s.addr}, Password: "p"}), "a", nil)
	want(t, open(t, redis.Config{Addresses: []string{s.addr}, Protocol: 3}), "a", routing.ErrUnavailable)
}

func TestErrorsDoNotRepeatThePassword(t *testing.T) {
	s := script(t, func(c []string) string {
		return fmt.Sprintf("-ERR unknown command '%s', with args beginning with: %q\r\n", c[0], c[1:])
	})
	for _, protocol := range []int{2, 3} {
		r := open(t, redis.Config{Addresses: []string{s.addr}, Username: "u", Password: "s3cret-pass", Protocol: protocol})
		_, err := r.Lookup(t.Context(), "a")
		if !errors.Is(err, routing.ErrUnavailable) || strings.Contains(err.Error(), "s3cret-pass") || !strings.Contains(err.Error(), "[redacted]") {
			t.Errorf("protocol %d: %v", protocol, err)
		}
	}
}

func TestConnectionRefused(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	r := open(t, at(s))
	s.Stop()
	start := time.Now()
	for range 100 {
		want(t, r, "a", routing.ErrUnavailable)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("100 refusals took %v", d)
	}
}

// Field report G08: the bound holds whatever Redis does.
func TestBlackHole(t *testing.T) {
	for name, addr := range map[string]func(t *testing.T) string{
		"accepts and never answers": func(t *testing.T) string {
			hold := make(chan struct{})
			t.Cleanup(func() { close(hold) })
			return script(t, func([]string) string { <-hold; return "" }).addr
		},
		"does not accept": fullBacklog,
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, redis.Config{Addresses: []string{addr(t)}, Timeout: 300 * time.Millisecond})
			results := make(chan time.Duration, 100)
			for range cap(results) {
				go func() {
					start := time.Now()
					if _, err := r.Lookup(t.Context(), "a"); !errors.Is(err, routing.ErrUnavailable) {
						t.Errorf("got %v", err)
					}
					results <- time.Since(start)
				}()
			}
			for range cap(results) {
				if d := <-results; d > 600*time.Millisecond {
					t.Errorf("a lookup with a limit of 300ms took %v", d)
				}
			}
		})
	}
}

// fullBacklog listens and never accepts, with no room for one more connection:
// whoever dials gets no answer.
func fullBacklog(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 16 {
		conn, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr // full
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the backlog does not fill up")
	return ""
}

func TestServerHangsAndGoesOn(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	s.Do("SET", "alive:a", record("a", "1"))
	cfg := at(s)
	cfg.Timeout = 200 * time.Millisecond
	r := open(t, cfg)
	want(t, r, "a", nil)
	s.Pause()
	want(t, r, "a", routing.ErrUnavailable)
	s.Resume()
	eventually(t, 2*time.Second, func() error { _, err := r.Lookup(t.Context(), "a"); return err })
}

// eventually polls: a foreign process decides when it is so.
func eventually(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(start) > limit {
			t.Fatalf("after %v: %v", limit, err)
		}
		<-tick.C
	}
}
