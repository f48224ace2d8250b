package redistest

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// StartJSON runs a server with the JSON commands: fakeredis, which ROCK uses
// in its local mode. It lacks most of what is not data.
func StartJSON(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir()}
	t.Cleanup(s.Stop)
	s.runJSON()
	return s
}

// RestartJSON kills a server of StartJSON and runs it again at the same address, with the JSON documents that it had.
func (s *Server) RestartJSON() {
	s.t.Helper()
	client := s.Admin()
	defer client.Close()
	documents := map[string]json.RawMessage{}
	for _, key := range client.Keys(s.t.Context(), "*").Val() {
		document, err := client.Do(s.t.Context(), "JSON.GET", key, ".").Text()
		if err != nil {
			s.t.Fatal(err)
		}
		documents[key] = json.RawMessage(document)
	}
	content, err := json.Marshal(documents)
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.dir, "documents.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.Stop()
	s.runJSON("--port", port(s.Addr), "--documents", file)
}

func (s *Server) runJSON(args ...string) {
	t := s.t
	t.Helper()
	root := repository(t)
	python := filepath.Join(root, ".cache", "py-fakeredis", "bin", "python")
	script := filepath.Join(root, "integration", "tools", "fakeredis_server.py")
	for _, file := range []string{python, script} {
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("fakeredis is not installed (%v); `make test` installs it", err)
		}
	}
	cmd := exec.Command(python, append([]string{script}, args...)...)
	cmd.Stderr = os.Stderr
	// The script ends when its standard input does.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	t.Cleanup(func() { stdin.Close() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("fakeredis printed no port: %v", err)
	}
	s.Addr = net.JoinHostPort("127.0.0.1", strings.TrimSpace(line))
}

// repository is the folder of go.mod.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}
