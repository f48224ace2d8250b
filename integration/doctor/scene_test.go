package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
	"github.com/caddy-e2b/gateway/module/doctor"
)

// user is the README's user of a Redis without JSON.
const user = "gateway on >" + password + " resetchannels ~alive:* ~e2b-gateway:key:* &__redis__:invalidate &e2b-gateway:limits:* " +
	"-@all +get +hgetall +ping +subscribe +publish +client|id +client|tracking +multi +exec +unwatch (~timeout:* -@all +get +set +watch)"

const (
	password = "c4nary-of-redis"
	tokenKey = "TOKEN_KEY"
)

// scene is the deployment of Caddyfile.example, with nothing wrong: its Redis, its
// ROCK with one sandbox, its keys and its DNS are real.
type scene struct {
	t            *testing.T
	dir          string
	redis        *redistest.Server
	rock         *rock.Cluster
	admin, proxy string // URLs
	dns          string
	env          map[string]string
	caddyfile    string
	edit         func(config map[string]any) // of the JSON, when a Caddyfile cannot say it
	openFiles    string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, dir: t.TempDir(), openFiles: "20000"}
	s.redis = redistest.Start(t, redistest.Options{Users: []string{user}})
	s.rock = s.newRock(rock.RedisStrings{Client: s.redis.Admin()})
	s.admin, s.proxy = s.serve(s.rock)
	s.create(s.admin)
	s.dns = serveDNS(t)
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	s.env = map[string]string{"REDIS_PASSWORD": password, tokenKey: base64.StdEncoding.EncodeToString(secret)}
	keys := s.file("keys.json", `{"keys": [{"digest": "`+auth.DigestOf("e2b_00").String()+`", "subject": "alice"}]}`, 0o640)
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	s.caddyfile = string(example)
	s.replace("address 127.0.0.1:6379", "address "+s.redis.Addr)
	s.replace("keys file /etc/e2b-gateway/keys.json", "keys file "+keys)
	s.replace("admin http://rock-admin:8080", "admin "+s.admin)
	s.replace("proxy http://rock-proxy-1:8081 http://rock-proxy-2:8081", "proxy "+s.proxy)
	return s
}

func (s *scene) newRock(records rock.Records) *rock.Cluster {
	s.t.Helper()
	c, err := rock.New(rock.Options{TempDir: s.t.TempDir(), Records: records})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return c
}

func (s *scene) serve(c *rock.Cluster) (admin, proxy string) {
	s.t.Helper()
	var urls []string
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		server, err := c.Serve(role, "")
		if err != nil {
			s.t.Fatal(err)
		}
		urls = append(urls, server.URL())
	}
	return urls[0], urls[1]
}

// create makes a sandbox past the gateway, and returns its id.
func (s *scene) create(admin string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, admin+"/sandboxes",
		strings.NewReader(`{"templateID":"base","timeout":600,"metadata":{}}`))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	var made struct{ SandboxID string }
	if err := json.NewDecoder(response.Body).Decode(&made); err != nil || response.StatusCode != http.StatusCreated {
		s.t.Fatalf("%s: %v", response.Status, err)
	}
	return made.SandboxID
}

// file makes a file with a mode, whatever the umask is, and returns its path.
func (s *scene) file(name, content string, mode os.FileMode) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// replace changes the Caddyfile at a place that must be there.
func (s *scene) replace(old, new string) {
	s.t.Helper()
	if !strings.Contains(s.caddyfile, old) {
		s.t.Fatalf("the Caddyfile has no %q", old)
	}
	s.caddyfile = strings.Replace(s.caddyfile, old, new, 1)
}

// Lines of the example that options are added behind.
const (
	inApp     = "\te2b {\n\t\t# ROCK's own Redis."
	inServers = "\tservers {\n"
	inCluster = "\t\tcluster default {\n"
	inSite    = "https://api.sandbox.example.com {\n\tlog\n"
)

func (s *scene) add(place, option string) { s.t.Helper(); s.replace(place, place+option+"\n") }

// option adds an option to the app.
func (s *scene) option(option string) {
	s.t.Helper()
	s.replace(inApp, "\te2b {\n\t\t"+option+"\n\t\t# ROCK's own Redis.")
}

// result is what a run came to.
type result struct {
	report   doctor.Report
	out, err string
	code     int
}

// run runs the command, with --json unless asked otherwise.
func (s *scene) run(args ...string) result {
	s.t.Helper()
	config := s.file("Caddyfile", s.caddyfile, 0o600)
	if s.edit != nil {
		adapted, err := inprocess.Adapt(s.caddyfile)
		if err != nil {
			s.t.Fatal(err)
		}
		var tree map[string]any
		if err := json.Unmarshal(adapted, &tree); err != nil {
			s.t.Fatal(err)
		}
		s.edit(tree)
		edited, err := json.Marshal(tree)
		if err != nil {
			s.t.Fatal(err)
		}
		config = s.file("config.json", string(edited), 0o600)
	}
	if args == nil {
		args = []string{"--json"}
	}
	program := harness.Build(s.t) // which may take its time
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	args = append([]string{"-c", `ulimit -n "$0" && exec "$@"`, s.openFiles, program, "doctor", "--config", config, "--resolver", s.dns}, args...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir, "HOME="+s.dir)
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	r := result{out: out.String(), err: stderr.String(), code: cmd.ProcessState.ExitCode()}
	if args[len(args)-1] == "--json" && r.code != 2 {
		if err := json.Unmarshal(out.Bytes(), &r.report); err != nil {
			s.t.Fatalf("%s%s: %v", r.out, r.err, err)
		}
	}
	for _, secret := range s.env {
		if strings.Contains(r.out+r.err, secret) {
			s.t.Errorf("a secret is in the output: %s%s", r.out, r.err)
		}
	}
	return r
}
