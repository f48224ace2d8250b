package bench

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/loopback"
)

// contestant is one that is measured: a process on its own core.
type contestant struct {
	kind    kind
	address string // host:port
	pid     int
	// admin is the base URL of Caddy's admin endpoint, "" where there is none.
	admin string
}

// kind is what a contestant is, as the tables call it.
type kind string

const (
	gateway       kind = "this gateway"
	gatewayLogged kind = "this gateway, access log on"
	gatewayPlain  kind = "this gateway, Go's HTTP client"
	gatewayTwice  kind = "this gateway, Caddy's HTTP metrics as well as its own"
	respond       kind = "Caddy `respond`"
	least         kind = "Caddy, a relay and nothing else"
	stock         kind = "Caddy `reverse_proxy`"
	stockBare     kind = "Caddy `reverse_proxy`, metrics off"
	library       kind = "`httputil.ReverseProxy`"
	libraryRedis  kind = "Go proxy, Redis `GET` per request"
	nginx         kind = "nginx"
	nginxRedis    kind = "nginx + Lua, Redis `GET` per request"
	haproxy       kind = "HAProxy"
	none          kind = "no proxy"
)

// asksRedis reports those that ask Redis for each request.
func (k kind) asksRedis() bool { return k == libraryRedis || k == nginxRedis }

// wanted reports whether -only leaves the kind in.
func (k kind) wanted(tb testing.TB) bool {
	tb.Helper()
	in, err := regexp.MatchString(*only, strings.ReplaceAll(string(k), "`", ""))
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

// start starts contestants that speak a transport, until the load is over.
func (s *scene) start(transport harness.Transport, kinds ...kind) []*contestant {
	s.Helper()
	var all []*contestant
	on(s, s.cores.contestant, func() {
		for _, k := range kinds {
			if !k.wanted(s) {
				continue
			}
			c := &contestant{kind: k}
			switch k {
			case gateway, gatewayLogged, gatewayPlain, gatewayTwice, respond:
				c = s.startCaddy(k, s.programs.gateway, s.gatewayConfig(k), transport)
			case least:
				program := goBuild(s, filepath.Join(filepath.Dir(s.programs.gateway), "leastproxy"), "github.com/caddy-e2b/gateway/integration/bench/leastproxy")
				c = s.startCaddy(k, program, s.leastConfig(), transport)
			case stock, stockBare:
				c = s.startCaddy(k, s.programs.caddy, s.stockConfig(k), transport)
			case library, libraryRedis:
				c = s.startLibrary(k, transport)
			case nginx, nginxRedis:
				c = s.startNginx(k, transport)
			case haproxy:
				c = s.startHAProxy(transport)
			case none:
				c.address, c.pid = s.upstream.Addr().String(), os.Getpid()
			}
			all = append(all, c)
		}
	})
	return all
}

func (s *scene) startCaddy(k kind, program, config string, transport harness.Transport) *contestant {
	s.Helper()
	p := harness.Run(s, program, config, transport)
	_, address, _ := strings.Cut(p.URL, "://")
	return &contestant{kind: k, address: address, pid: p.PID(), admin: p.AdminURL()}
}

func (s *scene) startLibrary(k kind, transport harness.Transport) *contestant {
	s.Helper()
	address := loopback.FreeAddress(s)
	args := []string{"-listen", address, "-upstream", s.upstream.Addr().String()}
	if k == libraryRedis {
		args = append(args, "-redis", s.redis.Addr)
	}
	if transport != harness.Cleartext {
		cert, key := harness.Certificate(s)
		args = append(args, "-cert", cert, "-key", key)
	}
	return s.run(k, address, s.programs.goproxy, args...)
}

// run starts a program that listens on address, and waits until it does.
func (s *scene) run(k kind, address, program string, args ...string) *contestant {
	s.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		s.Fatalf("%v; `make bench` installs it", err)
	}
	output, err := os.Create(filepath.Join(s.TempDir(), "output"))
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if s.Failed() {
			s.Logf("%s wrote:\n%s", k, head(s, output))
		}
		output.Close()
	})
	awaitListener(s, address, exited)
	return &contestant{kind: k, address: address, pid: cmd.Process.Pid}
}

// awaitListener polls: a foreign process has no other way to tell.
func awaitListener(tb testing.TB, address string, exited <-chan struct{}) {
	tb.Helper()
	limit := time.After(15 * time.Second)
	for poll := time.NewTicker(10 * time.Millisecond); ; {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			poll.Stop()
			return
		}
		select {
		case <-poll.C:
			continue
		case <-exited:
		case <-limit:
		}
		tb.Fatalf("nothing listens on %s", address)
	}
}

// head is the beginning of a file.
func head(tb testing.TB, file *os.File) []byte {
	tb.Helper()
	text := make([]byte, 4<<10)
	n, err := file.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		tb.Error(err)
	}
	return text[:n]
}

// gatewayConfig has everything on that an operator would have on. The gateway's own
// metrics need no configuration. The site of respond is the same and has a path more,
// which the gateway itself would pay for with each request that is not for it.
func (s *scene) gatewayConfig(k kind) string {
	log, client, metrics, floor := "", "lean", "", ""
	switch k {
	case gatewayTwice:
		metrics = "metrics"
	case gatewayLogged:
		log = "log"
	case gatewayPlain:
		client = "standard"
	case respond:
		floor = fmt.Sprintf("respond %s `%s`", floorPath, answer)
	}
	return fmt.Sprintf(`{
	%[8]s
	servers {
		listener_wrappers {
			e2b
		}
	}
	e2b {
		keys file %[1]s
		tokens {
			key bench {env.%[2]s}
		}
		registry redis {
			address %[3]s
		}
		limits {
			key {
				streams 100000
				requests 1000000
			}
			sandbox {
				streams 100000
				requests 1000000
			}
		}
		upstream_client %[7]s
		cluster bench {
			admin http://%[4]s
			proxy http://%[4]s
		}
	}
}
:80 {
	%[5]s
	%[6]s
	e2b
}
`, s.keysFile(), secretVariable, s.redis.Addr, s.upstream.Addr(), log, floor, client, metrics)
}

// leastConfig is that of leastproxy.
func (s *scene) leastConfig() string {
	return fmt.Sprintf("{\nservers {\nlistener_wrappers {\ne2b\n}\n}\n}\n:80 {\nleast %s\n}\n", s.upstream.Addr())
}

// stockConfig is Caddy's own proxy, as its documentation shows it.
func (s *scene) stockConfig(k kind) string {
	metrics := "metrics"
	if k == stockBare {
		metrics = ""
	}
	return fmt.Sprintf("{\n%s\n}\n:80 {\nreverse_proxy %s\n}\n", metrics, s.upstream.Addr())
}
