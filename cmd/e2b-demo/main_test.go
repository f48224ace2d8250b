package main

import (
	"bytes"
	"context"
	cryptotls "crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
)

// lockedBuffer is what a running demo prints.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// demo is a running demo.
type demo struct {
	out  lockedBuffer
	env  []string
	stop func() error
}

func start(t *testing.T, o options) *demo {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	o.envFile = filepath.Join(t.TempDir(), "env")
	d := &demo{env: os.Environ()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, o, &d.out) }()
	d.stop = sync.OnceValue(func() error {
		cancel()
		err := <-done
		if left, _ := filepath.Glob(filepath.Join(temp, "e2b-demo-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		return err
	})
	t.Cleanup(func() { d.stop() })

	deadline := time.After(30 * time.Second)
	for !strings.Contains(d.out.String(), "Ctrl-C") {
		select {
		case err := <-done:
			t.Fatalf("the demo ended: %v", err)
		case <-deadline:
			t.Fatal("the demo does not start")
		case <-time.After(10 * time.Millisecond):
		}
	}
	lines, err := os.ReadFile(o.envFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		if !strings.Contains(d.out.String(), line) {
			t.Errorf("%q is in the file and was not printed", line)
		}
		if variable, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
			d.env = append(d.env, variable)
		}
	}
	return d
}

// printed is the program that the demo printed between two of its lines.
func (d *demo) printed(t *testing.T, first, last string) string {
	t.Helper()
	_, rest, ok := strings.Cut(d.out.String(), first)
	program, _, ok2 := strings.Cut(rest, last)
	if !ok || !ok2 {
		t.Fatalf("no program in %s", d.out.String())
	}
	return program
}

// The first thing that a new user does, to the letter.
func TestThePrintedProgramsRun(t *testing.T) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(root, ".cache")
	const begin, look, end = "hello from Linux\n\nhello\n", "https://804[23]-.*\\.sandbox\\.localhost:\\d+/hello.txt hello\n", "killed: "
	for name, o := range map[string]options{
		"as it comes":    {profile: "rock"},
		"with TLS":       {profile: "rock", tls: true},
		"with Redis":     {profile: "rock", redis: true},
		"with all of it": {profile: "envd", redis: true, tls: true, secondKey: true},
		"open":           {profile: "rock", open: true},
		"a domain":       {profile: "rock", domain: "sandbox.localhost"},
		"and with Redis": {profile: "rock", domain: "sandbox.localhost", redis: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.listen = "127.0.0.1:0"
			d := start(t, o)
			want := begin + end
			if o.domain != "" {
				want = begin + look + end
			}

			python := exec.CommandContext(t.Context(), filepath.Join(cache, "py-e2b-2.34.0", "bin", "python"), "-c",
				d.printed(t, "Python (pip install e2b==2.34.0):\n", "JavaScript ("))
			python.Env = d.env
			if out, err := python.CombinedOutput(); err != nil || !regexp.MustCompile("^"+want+"True\n$").Match(out) {
				t.Errorf("Python: %v\n%s", err, out)
			}

			// Node finds packages from where a program lies.
			dir, err := os.MkdirTemp(filepath.Join(cache, "js-e2b-2.51.0"), "demo-")
			if err != nil {
				t.Fatalf("%v (make test installs it)", err)
			}
			defer os.RemoveAll(dir)
			program := filepath.Join(dir, "demo.mjs")
			if err := os.WriteFile(program, []byte(d.printed(t, "save as demo.mjs):\n", "Ctrl-C")), 0o600); err != nil {
				t.Fatal(err)
			}
			node := exec.CommandContext(t.Context(), "node", program)
			node.Env = d.env
			if out, err := node.CombinedOutput(); err != nil || !regexp.MustCompile("^"+want+"true\n$").Match(out) {
				t.Errorf("JavaScript: %v\n%s", err, out)
			}
			if err := d.stop(); err != nil {
				t.Errorf("the demo ended with %v", err)
			}
		})
	}
}

func TestTheDemoRefusesToServeOtherMachines(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":3002", "192.0.2.1:80", "nonsense", "[::]:0"} {
		if err := run(t.Context(), options{listen: listen, profile: "rock"}, &bytes.Buffer{}); err == nil {
			t.Errorf("%s was served", listen)
		}
	}
}

func TestATakenAddressIsExplained(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = run(t.Context(), options{listen: l.Addr().String(), profile: "rock"}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "-listen 127.0.0.1:0") {
		t.Errorf("got %v", err)
	}
}

// Caddy's listeners share their address with other Caddys.
func TestTwoDemosDoNotShareAnAddress(t *testing.T) {
	first := start(t, options{listen: "127.0.0.1:0", profile: "rock"})
	err := run(t.Context(), options{listen: first.address(), profile: "rock"}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "-listen 127.0.0.1:0") {
		t.Errorf("got %v", err)
	}
}

// The pretend ROCK runs any command: nobody else may reach it. And a name that
// the demo does not know must not be answered by Caddy itself, with an empty
// 200 that every SDK takes for success.
func TestTheDemoIsReachedThroughLoopbackByAnyName(t *testing.T) {
	for _, tls := range []bool{false, true} {
		d := start(t, options{listen: "127.0.0.1:0", profile: "rock", tls: tls})
		_, port, _ := net.SplitHostPort(d.address())
		addresses, err := net.InterfaceAddrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addresses {
			ip := a.(*net.IPNet).IP
			if c, err := net.DialTimeout("tcp", net.JoinHostPort(ip.String(), port), time.Second); err == nil {
				c.Close()
				if !ip.Equal(net.IPv4(127, 0, 0, 1)) {
					t.Errorf("the demo listens on %v", ip)
				}
			}
		}
		pool := x509.NewCertPool()
		if tls {
			pem, err := os.ReadFile(d.variable(t, "NODE_EXTRA_CA_CERTS"))
			if err != nil || !pool.AppendCertsFromPEM(pem) {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"127.0.0.1", "localhost", "sandbox.test"} {
			client := &http.Client{Transport: &http.Transport{
				TLSClientConfig: &cryptotls.Config{RootCAs: pool},
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, d.address())
				},
			}}
			scheme := map[bool]string{false: "http", true: "https"}[tls]
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+name+"/sandboxes/unknown", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Api-Key", d.variable(t, "E2B_API_KEY"))
			resp, err := client.Do(r)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			resp.Body.Close()
			client.CloseIdleConnections()
			if resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %d", name, resp.StatusCode)
			}
		}
		if err := d.stop(); err != nil {
			t.Error(err)
		}
	}
}

// variable is an exported variable.
func (d *demo) variable(t *testing.T, name string) string {
	t.Helper()
	for i := len(d.env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(d.env[i], name+"="); ok {
			return value
		}
	}
	t.Fatalf("%s is not exported", name)
	return ""
}

// address is where the demo listens.
func (d *demo) address() string {
	_, rest, _ := strings.Cut(d.out.String(), "listens on ")
	url, _, _ := strings.Cut(rest, ",")
	_, address, _ := strings.Cut(url, "://")
	return address
}

// Whoever tries the first promise of the README tries it with Ctrl-C.
func TestStoppingTheDemoEndsCommandsInTheProtocol(t *testing.T) {
	for range 2 { // and the next demo works as the first
		d := start(t, options{listen: "127.0.0.1:0", profile: "rock"})
		base := d.variable(t, "E2B_API_URL")
		key := d.variable(t, "E2B_API_KEY")
		sandbox := create(t, base, key)
		message := envelope.Append(nil, 0, []byte(`{"process":{"cmd":"/bin/bash","args":["-l","-c","sleep 60"]}}`))
		body := call(t, http.MethodPost, base+"/process.Process/Start", string(message), http.Header{
			"Content-Type": {"application/connect+json"}, "Connect-Timeout-Ms": {"60000"}, "X-Access-Token": {sandbox.Token},
			"E2b-Sandbox-Id": {sandbox.ID}, "E2b-Sandbox-Port": {"49983"}}).Body
		if _, err := io.ReadFull(body, make([]byte, envelope.PrefixSize)); err != nil {
			t.Fatal(err)
		}
		stopped := make(chan error)
		go func() { stopped <- d.stop() }()
		rest, err := io.ReadAll(body)
		if err != nil || !strings.Contains(string(rest), "The gateway is restarting") {
			t.Errorf("the command ended with %q, %v", rest, err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
}

// The keys are real: a stranger's opens nothing, another owner's nothing of the
// first one's. With -open everybody gets everything.
func TestTheKeysOfTheDemo(t *testing.T) {
	const first, second, stranger, none = "E2B_API_KEY", "E2B_SECOND_API_KEY", "a stranger", "nobody"
	for _, c := range []struct {
		name string
		o    options
		want map[string]int // the answer to asking for the first key's sandbox
	}{
		{"by default", options{secondKey: true}, map[string]int{first: 200, second: 404, stranger: 401, none: 401}},
		{"open", options{open: true, secondKey: true}, map[string]int{first: 200, second: 200, stranger: 200, none: 200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.listen, c.o.profile = "127.0.0.1:0", "rock"
			d := start(t, c.o)
			base := d.variable(t, "E2B_API_URL")
			sandbox := create(t, base, d.variable(t, first))
			for who, want := range c.want {
				header := http.Header{}
				switch who {
				case first, second:
					header.Set("X-Api-Key", d.variable(t, who))
				case stranger:
					header.Set("X-Api-Key", auth.NewKey())
				}
				if got := call(t, http.MethodGet, base+"/sandboxes/"+sandbox.ID, "", header).StatusCode; got != want {
					t.Errorf("%s: %d, want %d", who, got, want)
				}
			}
		})
	}
}

// An SDK that cannot find a host says so in libc's words, which name no cure.
func TestADomainThatLeadsElsewhereIsExplained(t *testing.T) {
	for domain, want := range map[string]bool{"sandbox.localhost": false, "sandbox.invalid": true} {
		d := start(t, options{listen: "127.0.0.1:0", profile: "rock", domain: domain})
		if got := strings.Contains(d.out.String(), "do not lead to this machine"); got != want {
			t.Errorf("%s: explained: %v, want %v", domain, got, want)
		}
		if err := d.stop(); err != nil {
			t.Error(err)
		}
	}
}

// The second key is there for those who ask for it.
func TestASecondKeyIsMadeOnRequestOnly(t *testing.T) {
	d := start(t, options{listen: "127.0.0.1:0", profile: "rock"})
	if strings.Contains(d.out.String(), "E2B_SECOND_API_KEY") {
		t.Error("there is a second key")
	}
}

// made is the answer to a create.
type made struct {
	ID    string `json:"sandboxID"`
	Token string `json:"envdAccessToken"`
}

func create(t *testing.T, base, key string) (sandbox made) {
	t.Helper()
	resp := call(t, http.MethodPost, base+"/sandboxes", `{"templateID":"base","metadata":{},"timeout":300}`,
		http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {key}})
	if err := json.NewDecoder(resp.Body).Decode(&sandbox); err != nil || sandbox.ID == "" {
		t.Fatalf("%d: %v", resp.StatusCode, err)
	}
	return sandbox
}

func call(t *testing.T, method, url, body string, header http.Header) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}
