package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// curled is an answer as curl has seen it.
type curled struct {
	status      int
	version     string // "1.1" or "2"
	contentType string
	head, body  string
}

// curl makes the calls, all in one process, one after the other.
func (s *scene) curl(t *testing.T, c *cast, with credential, token string) map[string]curled {
	t.Helper()
	dir := t.TempDir()
	var config strings.Builder
	for i, r := range rows {
		if i > 0 {
			config.WriteString("next\n")
		}
		set := func(option, value string) { fmt.Fprintf(&config, "%s = %s\n", option, strconv.Quote(value)) }
		name := filepath.Join(dir, strconv.Itoa(i))
		set("url", s.URL+c.place(r.path)+signature(r, with, token, strings.Contains(c.place(r.path), "?")))
		config.WriteString("silent\nshow-error\ngloboff\npath-as-is\nsuppress-connect-headers\n")
		set("max-time", "60")
		set("output", name+".body")
		set("dump-header", name+".head")
		set("write-out", `\n`+strconv.Itoa(i)+` %{http_code} %{http_version} %{content_type}`)
		if s.CAFile != "" {
			set("cacert", s.CAFile)
		}
		switch {
		case r.method == "HEAD":
			config.WriteString("head\n")
		default:
			set("request", r.method)
		}
		if r.method != "GET" && r.method != "HEAD" {
			if err := os.WriteFile(name+".in", []byte(c.place(r.body)), 0o600); err != nil {
				t.Fatal(err)
			}
			set("data-binary", "@"+name+".in")
		}
		contentType := r.contentType
		if contentType == "" {
			contentType = "application/json"
		}
		set("header", "Content-Type: "+contentType)
		switch {
		case r.shape < stream:
			if with != none {
				set("header", "X-API-KEY: "+apiKeys[with])
			}
		default:
			port := "49983"
			if r.shape == visitor {
				port = "8080"
			}
			if r.host != "" {
				set("header", "Host: "+strings.ReplaceAll(r.host, "{target}", c.target(s.mode, r, with)))
			} else {
				set("header", "E2b-Sandbox-Id: "+c.target(s.mode, r, with))
				set("header", "E2b-Sandbox-Port: "+port)
			}
			switch {
			case with == none || r.shape == signed:
			case r.shape == visitor && s.mode == made:
				set("header", "E2b-Traffic-Access-Token: "+c.traffic[with])
			default:
				set("header", "X-Access-Token: "+token)
			}
		}
		if r.shape == socket || r.shape == fileSock {
			config.WriteString("http1.1\n")
			for _, h := range []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"} {
				set("header", h)
			}
		}
	}
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "curl", "--config", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(config.String()), &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("curl: %v\n%s", err, stderr.String())
	}
	got := map[string]curled{}
	for line := range strings.Lines(out.String()) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(f) < 3 {
			continue
		}
		i, _ := strconv.Atoi(f[0])
		answer := curled{version: f[2]}
		answer.status, _ = strconv.Atoi(f[1])
		if len(f) == 4 {
			answer.contentType = f[3]
		}
		name := filepath.Join(dir, f[0])
		head, _ := os.ReadFile(name + ".head")
		body, _ := os.ReadFile(name + ".body")
		answer.head, answer.body = string(head), string(body)
		if rows[i].method == "HEAD" {
			answer.body = "" // curl writes the headers there
		}
		got[rows[i].String()] = answer
	}
	return got
}

// signature is the end of a signed URL.
func signature(r row, with credential, token string, query bool) string {
	if r.shape != signed || with == none {
		return ""
	}
	if with == malformed {
		return "&signature=v1_malformed"
	}
	path, op, until := "/home/user/b", "read", ""
	if r.method == "POST" {
		op = "write"
	}
	text := path + ":" + op + "::" + token
	if with == expired {
		until = "1000000000"
		text += ":" + until
		until = "&signature_expiration=" + until
	}
	sum := sha256.Sum256([]byte(text))
	return "&signature=v1_" + strings.NewReplacer("+", "%2B", "/", "%2F").Replace(base64.RawStdEncoding.EncodeToString(sum[:])) + until
}

// tells reports a body that is as it should be.
func (a answer) tells(body string) bool {
	if a.hides != "" && strings.Contains(body, a.hides) {
		return false
	}
	if a.pattern == "" {
		return body == a.body
	}
	return regexp.MustCompile(`^(?:` + a.pattern + `)\n?$`).MatchString(body)
}

// check holds an answer against the table.
func (r row) check(t *testing.T, want answer, got curled, transport harness.Transport) {
	t.Helper()
	version := "1.1"
	if transport == harness.TLS2 && r.shape != socket && r.shape != fileSock {
		version = "2"
	}
	switch {
	case got.status != want.status, got.version != version,
		want.contentType != unknown && got.contentType != want.contentType,
		!want.tells(got.body):
		t.Errorf("%d HTTP/%s %s %q, want %d HTTP/%s %s %q%s", got.status, got.version, got.contentType, got.body,
			want.status, version, want.contentType, want.body, want.pattern)
	case want.grpc != "" && !strings.Contains(strings.ToLower(got.head), "grpc-status: "+want.grpc+"\r\n"):
		t.Errorf("want gRPC status %s: %s", want.grpc, got.head)
	}
	for _, secret := range apiKeys {
		if strings.Contains(got.body, secret) && secret != apiKeys[valid] && secret != apiKeys[foreign] {
			t.Errorf("a key is in the answer: %s", got.body)
		}
	}
}

// The wire matrix: every credential with every call.
func TestTheWireMatrix(t *testing.T) {
	for _, tc := range []struct {
		mode      mode
		transport harness.Transport
	}{{made, harness.Cleartext}, {made, harness.TLS2}, {passthrough, harness.Cleartext}} {
		t.Run(fmt.Sprintf("%s over %s", tc.mode, tc.transport), func(t *testing.T) {
			t.Parallel() // curl waits more than it works
			s := open(t, tc.mode, tc.transport)
			c := s.cast(t, "curl")
			s.revoke(t)
			got := map[credential]map[string]curled{}
			var mu sync.Mutex
			var bad sync.WaitGroup
			for _, with := range credentials {
				if with == valid {
					continue
				}
				bad.Go(func() {
					answers := s.curl(t, c, with, c.tokens[with])
					mu.Lock()
					defer mu.Unlock()
					got[with] = answers
				})
			}
			bad.Wait()
			got[valid] = s.curl(t, c, valid, c.tokens[valid]) // it ends sandboxes
			for _, with := range credentials {
				for _, r := range rows {
					t.Run(string(with)+"/"+r.String(), func(t *testing.T) {
						answer, ok := got[with][r.String()]
						if !ok {
							t.Fatal("it was not made")
						}
						r.check(t, want(tc.mode, c, r, with), answer, tc.transport)
					})
				}
			}
			logs := s.Logs()
			for with, secret := range apiKeys {
				if strings.Contains(logs, secret) {
					t.Errorf("the %s key is in the log", with)
				}
			}
			for with, secret := range c.traffic {
				if with != malformed && strings.Contains(logs, secret) {
					t.Errorf("the %s traffic token is in the log", with)
				}
			}
			for with, secret := range c.tokens {
				if with != malformed && strings.Contains(logs, secret) {
					t.Errorf("the %s token is in the log", with)
				}
			}
		})
	}
}
