//go:build realrock

package realrock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/loopback"
	"github.com/caddy-e2b/gateway/integration/redistest"
)

func TestMain(m *testing.M) {
	if err := adopt(); err != nil {
		panic(err)
	}
	code := m.Run()
	endAll()
	os.Exit(code)
}

// native is where ROCK's own API is.
const native = "/apis/envs/sandbox/v1"

// stage is a ROCK deployment.
type stage struct {
	dir          string
	host         string // the address of its one worker, as ROCK writes it into records
	redis        *redistest.Server
	admin, proxy *process
	adminURL     string
	proxyURL     string
}

// open starts Redis, Ray, a worker's rocklet and both roles, and waits until they answer.
func open(t *testing.T) *stage {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(root, ".cache", "py-rock", "bin")
	if _, err := os.Stat(filepath.Join(bin, "admin")); err != nil {
		t.Fatalf("ROCK is not installed (%v); `make rock` installs it", err)
	}
	dir, err := os.MkdirTemp("", "rock") // short: Ray's sockets are below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endAll(); os.RemoveAll(dir) })
	s := &stage{dir: dir, host: outward(), redis: redistest.StartJSON(t)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(tail(dir))
		}
	})
	for _, d := range []string{"docker", "status", "home", "bin", "log"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "bin", "docker"), "./integration/realrock/docker")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	worker, ray := portOf(loopback.FreeAddress(t)), portOf(loopback.FreeAddress(t))
	redisHost, redisPort, _ := net.SplitHostPort(s.redis.Addr)
	database := "sqlite:///" + filepath.Join(dir, "rock.db")
	config := filepath.Join(dir, "rock.yml")
	yaml := fmt.Sprintf("ray:\n  address: %s:%s\n  namespace: rock\nredis:\n  host: %s\n  port: %s\ndatabase:\n  url: %s\naes_encrypt_key: %s\n",
		s.host, ray, redisHost, redisPort, database, "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")
	if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "OTEL_SDK_DISABLED=true", "PATH="+filepath.Join(dir, "bin")+":"+bin+":"+os.Getenv("PATH"), "HOME="+filepath.Join(dir, "home"),
		"DOCKER_STAND_IN="+filepath.Join(dir, "docker"), "ROCKLET="+filepath.Join(bin, "rocklet"),
		"ROCK_CONFIG="+config, "ROCK_SERVICE_STATUS_DIR="+filepath.Join(dir, "status"), "ROCK_WORKER_ROCKLET_PORT="+worker,
		"ROCK_WORKER_ENV_TYPE=local", "RAY_USAGE_STATS_ENABLED=0")
	tables := exec.Command(filepath.Join(bin, "python"), filepath.Join(root, "integration", "realrock", "py", "tables.py"), database)
	tables.Env = env
	if out, err := tables.CombinedOutput(); err != nil {
		t.Fatalf("making ROCK's tables: %v\n%s", err, out)
	}
	// ROCK takes a worker's address from its host name and has Ray pin restarts to it, so the two must agree. A host name
	// of its own, which is the address, sees to that.
	s.run(t, env, "ray", "unshare", "--uts", "sh", "-c", `hostname "$0" && exec ray start --head --block --node-ip-address="$0" --port=$1 `+
		`--include-dashboard=false --num-cpus=8 --object-store-memory=80000000 --temp-dir="$2"`, s.host, ray, filepath.Join(dir, "ray"))
	s.run(t, env, "worker", filepath.Join(bin, "rocklet"), "--port", worker)
	listening(t, net.JoinHostPort(s.host, ray))
	s.adminURL, s.proxyURL = "http://"+loopback.FreeAddress(t), "http://"+loopback.FreeAddress(t)
	s.admin = s.run(t, env, "admin", filepath.Join(bin, "admin"), "--env", "real", "--role", "admin", "--port", portOf(s.adminURL))
	s.proxy = s.run(t, env, "proxy", filepath.Join(bin, "admin"), "--env", "real", "--role", "proxy", "--port", portOf(s.proxyURL))
	s.ready(t)
	return s
}

// outward is this machine's address towards others, which is what Ray takes as well.
func outward() string {
	c, err := net.Dial("udp4", "8.8.8.8:80") // sends nothing
	if err != nil {
		return "127.0.0.1"
	}
	defer c.Close()
	host, _, _ := net.SplitHostPort(c.LocalAddr().String())
	return host
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func (s *stage) run(t *testing.T, env []string, name string, argv ...string) *process {
	t.Helper()
	p := &process{name: name, argv: argv, env: env, dir: s.dir}
	p.start(t)
	return p
}

// ready waits until both roles answer.
func (s *stage) ready(t *testing.T) {
	t.Helper()
	for _, role := range []string{s.adminURL, s.proxyURL} {
		eventually(t, role+" answers", func() bool {
			resp, err := http.Get(role + "/")
			if err != nil {
				return false
			}
			resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
}

func listening(t *testing.T, address string) {
	t.Helper()
	eventually(t, address+" listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// eventually waits until something holds. Ray and Python take their time to start.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// config is a gateway's Caddyfile. options are lines of the cluster's block.
func (s *stage) config(keys, options string) string {
	return fmt.Sprintf(`{
	e2b {
		%s
		registry redis {
			address %s
		}
		cluster real {
			admin %s
			proxy %s
			allow %s/32
			%s
		}
	}
}
:80 {
	e2b
}
`, keys, s.redis.Addr, s.adminURL, s.proxyURL, s.host, options)
}

// ask makes a call and returns what came.
func ask(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return resp.StatusCode, string(content)
}

// rock makes a call of ROCK's own API and reads its result.
func rock(t *testing.T, method, url, body string, headers ...string) map[string]any {
	t.Helper()
	status, content := ask(t, method, url, body, headers...)
	var answer struct {
		Status string
		Result json.RawMessage
	}
	if err := json.Unmarshal([]byte(content), &answer); err != nil || status != 200 || answer.Status != "Success" {
		t.Fatalf("%s %s: %d %s", method, url, status, content)
	}
	result := map[string]any{}
	if bytes.HasPrefix(answer.Result, []byte("{")) {
		if err := json.Unmarshal(answer.Result, &result); err != nil {
			t.Fatal(err)
		}
	}
	return result
}

// create has the admin role at base start a sandbox, and waits until ROCK says that it runs.
func create(t *testing.T, base, more string, headers ...string) (id string) {
	t.Helper()
	made := rock(t, http.MethodPost, base+native+"/start_async", `{"image":"python:3.11","memory":"1g","cpus":0.5`+more+`}`, headers...)
	id, _ = made["sandbox_id"].(string)
	awaitRunning(t, base, id, headers...)
	return id
}

func awaitRunning(t *testing.T, base, id string, headers ...string) {
	t.Helper()
	eventually(t, id+" runs", func() bool {
		got := rock(t, http.MethodGet, base+native+"/get_status?sandbox_id="+id, "", headers...)
		return got["state"] == "running" && got["is_alive"] == true
	})
}
