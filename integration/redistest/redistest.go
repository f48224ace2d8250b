// Package redistest starts real Redis servers for tests: one server, a pair
// under Sentinel, a Cluster of three, and a server with the JSON commands. Each
// is a process of its own on free loopback ports, in a temporary directory,
// and ends with the test.
//
// It is for tests only and knows nothing of sandboxes; no package of the
// product may import it.
package redistest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/integration/loopback"
)

// patience is how long a server may take to do what it was told.
const patience = 15 * time.Second

// Options are what a server is started with. The zero value is an open
// server in cleartext.
type Options struct {
	// Password is requirepass; tests log in with it as the default user.
	Password string
	// Users are ACL lines without the word user, such as
	// "reader on >secret ~alive:* +get". The default user stays.
	Users []string
	// TLS makes the server speak TLS only, with a certificate for 127.0.0.1
	// and localhost by an authority of its own: see Server.CAFile.
	TLS bool
	// Args are more arguments, such as "--maxclients", "10".
	Args []string
}

// Server is one redis-server process.
type Server struct {
	Addr     string // 127.0.0.1:port
	Password string
	CAFile   string // PEM, with TLS only

	t    testing.TB
	dir  string
	args []string
	tls  *tls.Config
	cmd  *exec.Cmd
}

// Start runs a server and waits until it answers.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	dir := t.TempDir()
	port := freePort(t)
	s := &Server{
		Addr:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Password: o.Password,
		t:        t,
		dir:      dir,
	}
	s.args = []string{"--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no", "--logfile", "redis.log"}
	if o.TLS {
		certs := makeCertificates(t, dir)
		s.CAFile, s.tls = certs.caFile, certs.client
		s.args = append(s.args, "--port", "0", "--tls-port", strconv.Itoa(port), "--tls-auth-clients", "no",
			"--tls-cert-file", certs.certFile, "--tls-key-file", certs.keyFile, "--tls-ca-cert-file", certs.caFile)
	} else {
		s.args = append(s.args, "--port", strconv.Itoa(port))
	}
	if o.Password != "" {
		s.args = append(s.args, "--requirepass", o.Password, "--masterauth", o.Password)
	}
	for _, u := range o.Users {
		s.args = append(s.args, append([]string{"--user"}, strings.Fields(u)...)...)
	}
	s.args = append(s.args, o.Args...)
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

// Start runs a stopped server again, on the same port and empty.
func (s *Server) Start() {
	s.t.Helper()
	s.run("redis-server", s.args...)
	admin := s.Admin()
	defer admin.Close()
	s.await("answers", func(ctx context.Context) error { return admin.Ping(ctx).Err() })
}

func (s *Server) run(program string, args ...string) {
	s.t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		s.t.Fatalf("%s is not installed; `make test` installs it", program)
	}
	s.cmd = exec.Command(path, args...)
	out, err := os.OpenFile(filepath.Join(s.dir, "output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("starting %s: %v", program, err)
	}
}

// Stop kills the server: its connections are closed and its port refuses.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Pause stops the process from running while its port still accepts: the
// server hangs. Resume lets it go on.
func (s *Server) Pause()  { s.signal(syscall.SIGSTOP) }
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// PID is the number of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Admin returns a client that may do everything. The caller closes it.
func (s *Server) Admin() *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: s.Addr, Password: s.Password, TLSConfig: s.tls, Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true,
	})
}

// Do runs one command as the administrator and fails the test on an error.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	admin := s.Admin()
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	v, err := admin.Do(ctx, args...).Result()
	if err != nil && err != goredis.Nil {
		s.t.Fatalf("redis %v: %v", args[0], err)
	}
	return v
}

// Calls returns how often a command ran since the server started, "get" or
// "client|tracking" for example.
func (s *Server) Calls(command string) int {
	s.t.Helper()
	info, _ := s.Do("INFO", "commandstats").(string)
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			n, _, _ := strings.Cut(rest, ",")
			calls, err := strconv.Atoi(n)
			if err != nil {
				s.t.Fatal(err)
			}
			return calls
		}
	}
	return 0
}

// Connections returns how many clients are connected, this question's own
// connection not counted.
func (s *Server) Connections() int {
	s.t.Helper()
	list, _ := s.Do("CLIENT", "LIST").(string)
	return strings.Count(list, "\n") - 1
}

// await polls a foreign process until it has done what it should.
func (s *Server) await(what string, done func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		attempt, stop := context.WithTimeout(ctx, time.Second)
		err := done(attempt)
		stop()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.dir, "redis.log"))
			output, _ := os.ReadFile(filepath.Join(s.dir, "output.log"))
			s.t.Fatalf("%s never %s: %v\n%s%s", s.Addr, what, err, output, log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(port(loopback.FreeAddress(t)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func port(addr string) string {
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		panic(fmt.Sprintf("redistest: %v", err))
	}
	return p
}
