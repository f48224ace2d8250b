package bench

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing"
)

// scene is what all contestants of a load have around them.
type scene struct {
	testing.TB
	cores    cores
	upstream *upstream
	redis    *redistest.Server
	programs programs
	// host is for how long the contestants' core was not run by its host, see takenAway.
	host func() time.Duration
	// disturbed is how many of the turns that count the host has disturbed, see hostText.
	disturbed int
}

// programs are the paths of what is built from this checkout.
type programs struct{ gateway, caddy, goproxy string }

// build builds what stands in go.mod: the gateway, Caddy as it comes, and goproxy.
func build(tb testing.TB) programs {
	tb.Helper()
	p := programs{gateway: harness.Build(tb)}
	dir := filepath.Dir(p.gateway)
	p.caddy = goBuild(tb, filepath.Join(dir, "caddy"), "github.com/caddyserver/caddy/v2/cmd/caddy")
	p.goproxy = goBuild(tb, filepath.Join(dir, "goproxy"), "github.com/caddy-e2b/gateway/integration/bench/goproxy")
	return p
}

func goBuild(tb testing.TB, program, from string) string {
	tb.Helper()
	if out, err := exec.Command("go", "build", "-o", program, from).CombinedOutput(); err != nil {
		tb.Fatalf("building %s: %v\n%s", from, err, out)
	}
	return program
}

// newScene starts the upstream, and redis-server beside it.
func newScene(tb testing.TB, c cores, p programs) *scene {
	tb.Helper()
	s := &scene{TB: tb, cores: c, upstream: newUpstream(tb), programs: p}
	s.host = func() time.Duration { return takenAway(tb, c.contestant) }
	on(tb, c.rest, func() { s.redis = redistest.Start(tb, redistest.Options{}) })
	s.redis.Do("SET", "alive:"+sandbox, s.record(sandbox))
	return s
}

const (
	// sandbox is the one that requests are for, unless a load says otherwise.
	sandbox = "i7f3a9c2e51b44d0"
	// subject is whose it is.
	subject = "alice"
	// apiKey is hers.
	apiKey = "e2b_a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
	// secretVariable is what the token key is read from.
	secretVariable = "E2B_BENCH_TOKEN_KEY"
)

var secret = strings.Repeat("bench-", auth.MinTokenSecret)

var tokens = func() *auth.Tokens {
	t, err := auth.NewTokens([]auth.TokenKey{{ID: "bench", Secret: []byte(secret)}})
	if err != nil {
		panic(err)
	}
	return t
}()

// record is ROCK's record of a sandbox that runs, on the upstream.
func (s *scene) record(id string) []byte {
	address := s.upstream.Addr().(*net.TCPAddr)
	owner := routing.Owner{Subject: subject, Key: auth.DigestOf(apiKey)}
	b, err := json.Marshal(map[string]any{
		"sandbox_id": id, "image": "python:3.11", "metadata": map[string]string{routing.MetadataOwner: owner.Metadata()},
		"env": map[string]string{}, "cpus": 2.0, "memory": "4.00g", "disk": "10G", "num_gpus": nil, "accelerator_type": nil,
		"user_id": subject, "experiment_id": "default", "namespace": "default", "cluster_name": "zb",
		"state": "running", "create_time": "2026-12-01T18:00:00+08:00", "start_time": "2026-12-01T18:00:02+08:00",
		"host_name": "ray-worker-1", "host_ip": address.IP.String(),
		"port_mapping":          map[string]int{"8080": address.Port, "22555": address.Port + 1, "49983": address.Port},
		"auto_transition_state": nil, "auto_transition_time": nil,
	})
	if err != nil {
		s.Fatal(err)
	}
	return b
}

// keysFile is a file with alice's key.
func (s *scene) keysFile() string {
	file := filepath.Join(s.TempDir(), "keys.json")
	keys := fmt.Sprintf(`{"keys":[{"digest":%q,"subject":%q}]}`, auth.DigestOf(apiKey), subject)
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		s.Fatal(err)
	}
	return file
}
