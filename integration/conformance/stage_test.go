package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// stageVariable holds a [stage], for the programs that the runner starts.
const stageVariable = "E2B_CONFORMANCE_STAGE"

// stage is what these programs need to know.
type stage struct {
	As      string // "server" or "client"
	Suite   string // where the suite's programs are
	Gateway string // the real binary
	Redis   string // the address of the registry
	Port    int    // of the sandbox: envd's, or an app's

	// CA is the authority of the certificate, three PEM files.
	CA, Cert, Key string

	// Addresses are free ones, for gateways: which is whose is the program's affair.
	Addresses []string
	// Logs is a directory.
	Logs string
	// Front is the gateway of the client.
	Front front
}

func TestMain(m *testing.M) {
	text, ok := os.LookupEnv(stageVariable)
	if !ok {
		os.Exit(m.Run())
	}
	// The children of a program end with the thread that has started them (prctl(2), PR_SET_PDEATHSIG).
	runtime.LockOSThread()
	var s stage
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		switch s.As {
		case "server":
			err = s.serve(os.Stdin, os.Stdout)
		case "client":
			err = s.call(os.Stdin, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the conformance %s: %v\n", s.As, err)
		os.Exit(1)
	}
}

// program is one of the suite's.
func (s *stage) program(name string) string { return filepath.Join(s.Suite, name) }

// child is a process that never outlives this one.
func child(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// sandboxAt writes ROCK's record of a sandbox whose ports are a server on loopback.
func (s *stage) sandboxAt(id string, port int) error {
	record, err := json.Marshal(map[string]any{
		"sandbox_id": id, "state": "running", "host_ip": "127.0.0.1", "port_mapping": map[int]int{envd: port, app: port},
		"create_time": "2026-12-01T18:00:00+08:00", "start_time": "2026-12-01T18:00:02+08:00",
	})
	if err != nil {
		return err
	}
	client := goredis.NewClient(&goredis.Options{Addr: s.Redis})
	defer client.Close()
	return client.Set(context.Background(), "alive:"+id, record, 0).Err()
}

// Ports of a sandbox.
const (
	envd = 49983
	app  = 8080
)

// front is how clients come to a gateway.
type front struct {
	Address string // where it listens
	Version int    // the only version of HTTP
	TLS     bool
	Clients string // the PEM file that clients' certificates are checked with, "" for none
}

// caddyfile is that of a gateway whose clients know nothing of sandboxes: all of their calls are for a port of one.
func (s *stage) caddyfile(f front, sandbox string) string {
	_, port, _ := strings.Cut(f.Address, ":")
	scheme, protocols, certificate := "http", "h1", ""
	if f.Version == http2 {
		protocols = "h1 h2c"
	}
	if f.TLS {
		scheme, certificate = "https", fmt.Sprintf("tls %s %s {\n%s\n}", s.Cert, s.Key, f.clientAuth())
		protocols = strings.Replace(protocols, "h2c", "h2", 1)
	}
	return fmt.Sprintf(`{
	admin off
	auto_https off
	grace_period 1s
	default_sni localhost
	storage file_system %s
	log {
		output file %s
	}
	servers {
		protocols %s
		# Clients that call an address name no host in TLS.
		strict_sni_host insecure_off
		listener_wrappers {
			e2b
		}
	}
	e2b {
		keys off
		registry redis {
			address %s
		}
		cluster default {
			mode direct
			allow 127.0.0.0/8
			admin http://127.0.0.1:9
			proxy http://127.0.0.1:9
		}
	}
}
%s://:%s {
	bind 127.0.0.1
	%s
	route {
		request_header E2b-Sandbox-Id %s
		request_header E2b-Sandbox-Port %d
		e2b
	}
}
`, s.Logs, filepath.Join(s.Logs, "gateway-"+port), protocols, s.Redis, scheme, port, certificate, sandbox, s.Port)
}

// clientAuth is what the Caddyfile says of clients' certificates.
func (f front) clientAuth() string {
	if f.Clients == "" {
		return ""
	}
	return "client_auth {\nmode require_and_verify\ntrust_pool file {\npem_file " + f.Clients + "\n}\n}"
}

// gatewayAt starts a gateway, and returns when it listens.
func (s *stage) gatewayAt(f front, sandbox string) (*exec.Cmd, error) {
	file := filepath.Join(s.Logs, "Caddyfile-"+f.Address)
	if err := os.WriteFile(file, []byte(s.caddyfile(f, sandbox)), 0o600); err != nil {
		return nil, err
	}
	gateway := child(s.Gateway, "run", "--config", file, "--adapter", "caddyfile")
	var said bytes.Buffer
	gateway.Stderr = &said
	if err := gateway.Start(); err != nil {
		return nil, err
	}
	if err := listens(f.Address, patience); err != nil {
		_ = gateway.Process.Kill()
		_ = gateway.Wait()
		return nil, fmt.Errorf("the gateway: %w\n%s", err, said.String())
	}
	return gateway, nil
}
