package module_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-e2b/gateway/module"
	"github.com/caddy-e2b/gateway/routing"
)

func init() { caddy.RegisterModule(probeRegistry{}) }

// newRock is both roles of a ROCK whose data plane is the given handler.
func newRock(t *testing.T, data http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(data)
	t.Cleanup(s.Close)
	return s.URL
}

// clusterOf is the global option with one cluster at rock and more options.
func clusterOf(rock, more string) string {
	return fmt.Sprintf(`
	e2b {
		keys off
		cluster default {
			admin %[1]s
			proxy %[1]s
		}
		%[2]s
	}
`, rock, more)
}

// staticSandbox is a registry that knows one sandbox, "known".
const staticSandbox = `
		registry static {
			sandbox known {
				host 127.0.0.1
			}
		}
`

// ask makes a data-plane request for a sandbox.
func ask(ctx context.Context, base, sandbox, path string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		panic(err)
	}
	r.Header.Set(routing.HeaderSandboxID, sandbox)
	r.Header.Set(routing.HeaderSandboxPort, "49983")
	return r
}

// probe is what a test sees of the registry "probe".
type probe struct {
	lookups, made, watching atomic.Int32
	closed                  chan string // the label of each registry that was closed
}

var theProbe *probe

func newProbe(t *testing.T) *probe {
	t.Helper()
	theProbe = &probe{closed: make(chan string, 16)}
	return theProbe
}

// probeRegistry is a registry as somebody else would write one: every sandbox
// runs.
type probeRegistry struct {
	Label string `json:"label,omitempty"`
	probe *probe
}

func (probeRegistry) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "e2b.registries.probe", New: func() caddy.Module { return new(probeRegistry) }}
}

func (p *probeRegistry) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	d.Args(&p.Label)
	return nil
}

func (p *probeRegistry) Registry(env module.Environment) (routing.Registry, error) {
	if env.Cluster != "default" || env.Admin == nil || env.Upstream == nil || env.Logger == nil {
		return nil, fmt.Errorf("incomplete environment %+v", env)
	}
	theProbe.made.Add(1)
	return &probeRegistry{p.Label, theProbe}, nil
}

func (p *probeRegistry) Lookup(_ context.Context, id string) (*routing.Route, error) {
	p.probe.lookups.Add(1)
	if strings.HasPrefix(id, "gone") {
		return nil, routing.ErrGone
	}
	return &routing.Route{SandboxID: id, State: routing.StateRunning, Lifecycle: routing.LifecycleOf(id)}, nil
}

func (p *probeRegistry) Watch(ctx context.Context, _ func(string)) {
	p.probe.watching.Add(1)
	<-ctx.Done()
	p.probe.watching.Add(-1)
}

func (p *probeRegistry) Close() error {
	p.probe.closed <- p.Label
	return nil
}
