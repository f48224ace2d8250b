package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// Of the caches in worlds where gateways dial sandboxes: an address may be another sandbox's when quarantine has passed, and not before.
const (
	shortTTL, shortStale = 150 * time.Millisecond, 150 * time.Millisecond
	quarantine           = shortTTL + shortStale + time.Second
)

// world is a deployment, built once for all seeds that are in it.
type world struct {
	testing.TB
	kind     kind
	store    *store
	records  *keeper
	rock     *rock.Cluster
	roles    map[rock.Role]*wire
	admin    string // past the wire
	gateways []*gateway
	witness  *witness
	ledger   *ledger
	seed     uint64 // that runs
	tally    tally
	lost     map[string]int // how many faults lose the packets of a port

	mu        sync.Mutex
	sandboxes []string       // of the seed
	ports     map[string]int // that a sandbox is to have
	arrived   map[string]int
	tasks     sync.WaitGroup // of the seed's faults
}

func newWorld(t testing.TB, k kind) *world {
	t.Helper()
	w := &world{
		TB: t, kind: k, store: newStore(t, k.registry), witness: newWitness(), ledger: newLedger(),
		roles: map[rock.Role]*wire{}, ports: map[string]int{}, lost: map[string]int{}, tally: tally{ends: map[string]int{}},
	}
	w.records = newKeeper(w.store)
	var err error
	w.rock, err = rock.New(rock.Options{
		TempDir: t.TempDir(), Records: w.records, Envd: w.witness.in, Listeners: k.direct, LogSize: 1 << 15,
		EnvdPort: w.portOf, ScanInterval: -1, ReconcileInterval: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.rock.Close() })
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		server, err := w.rock.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		if role == rock.Admin {
			w.admin = server.URL()
		}
		w.roles[role] = newWire(t, server.Addr())
	}
	program := programOf(t, k)
	for i := range k.gateways {
		g := &gateway{number: i, caddyfile: w.caddyfile()}
		g.Process = harness.Run(t, program, g.caddyfile, k.transport)
		g.url = g.URL
		w.gateways = append(w.gateways, g)
	}
	w.measure()
	return w
}

// programOf is the gateway of a kind of world: the real binary, but for the clock.
func programOf(t testing.TB, k kind) string {
	t.Helper()
	switch k.special {
	case limited:
		return smallBinary(t)
	case clocked:
		return clockBinary(t)
	default:
		return harness.Build(t)
	}
}

func (w *world) caddyfile() string {
	mode, cache := "", "ttl 1s\n negative 100ms"
	if w.kind.direct {
		mode = "mode direct\n allow 127.0.0.1/32"
		cache = fmt.Sprintf("ttl %v\n negative 100ms\n stale %v", shortTTL, shortStale)
	}
	return fmt.Sprintf(`{
	grace_period 1s
	servers {
		listener_wrappers {
			e2b
		}
	}
	e2b {
		keys off
		idle_timeout 400ms
		dial_timeout 1s
		registry %s
		cache {
			%s
		}
		cluster test {
			admin http://%s
			proxy http://%s
			%s
		}
	}
}
:80 {
	e2b
}
`, w.store.config, cache, w.roles[rock.Admin].address, w.roles[rock.Proxy].address, mode)
}

// portOf is the port that a sandbox's own listener is to have, 0 for any.
func (w *world) portOf(s *rock.Sandbox) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ports[s.ID]
}

// names are the sandboxes that clients know.
func (w *world) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sandboxes
}

// populate makes the sandboxes of a seed, past the gateways.
func (w *world) populate(p plan) {
	var all []string
	for i := range sandboxes {
		id := fmt.Sprintf("s%d-%c", p.seed, 'a'+i)
		if err := w.create(id); err != nil {
			w.Fatal(err)
		}
		w.ledger.begin(id)
		all = append(all, id)
	}
	w.mu.Lock()
	w.sandboxes = all
	w.mu.Unlock()
}

// create makes a sandbox past the gateways.
func (w *world) create(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.admin+"/sandboxes",
		strings.NewReader(`{"templateID":"base","timeout":300,"metadata":{"ap-sandbox-id":"`+id+`"}}`))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("creating %s: %s", id, resp.Status)
	}
	return nil
}

// doubtAll doubts all sandboxes; what it returns ends that.
func (w *world) doubtAll() (certain func()) {
	all := w.names()
	for _, id := range all {
		w.ledger.doubt(id)
	}
	return func() {
		for _, id := range all {
			w.ledger.certain(id)
		}
	}
}

// heal makes an end of all that is wrong with the world.
func (w *world) heal() {
	w.rock.Faults().Clear()
	for _, line := range w.roles {
		line.heal()
	}
	if w.store.wire != nil {
		w.store.wire.heal()
	}
	for _, g := range w.gateways {
		g.alive(w)
	}
}

// lateOnly tells whether nothing was wrong but that gateways could not find out in time where a sandbox is: who else uses the machine may
// keep it so busy that a lookup takes longer than the 500 ms that it has in these worlds.
func lateOnly(wrong []string) bool {
	return !slices.ContainsFunc(wrong, func(s string) bool {
		complaints, _, _ := strings.Cut(s, "\n")
		return complaints != notServed(http.StatusServiceUnavailable) && complaints != notServed(`a stream ended "aborted"`)
	})
}

// measure has the gateways do a little of everything, and notes what they hold when they have nothing to do.
func (w *world) measure() {
	w.seed = 0
	p := plan{kind: w.kind, length: 500 * time.Millisecond, workers: workers}
	for _, g := range w.gateways {
		g.idle = footprint{files: 1 << 20, goroutines: 1 << 20}
	}
	for try := 1; ; try++ {
		wrong := w.rehearse(p)
		if len(wrong) == 0 {
			break
		}
		if try == 3 || !lateOnly(wrong) {
			w.Fatalf("%v without any fault, try %d:\n%s", w.kind, try, strings.Join(wrong, "\n"))
		}
	}
	for _, g := range w.gateways {
		// What is idle may be closed first.
		within(2*time.Second, func() bool {
			now, err := g.footprint()
			if err != nil {
				w.Fatal(err)
			}
			g.idle = footprint{files: min(g.idle.files, now.files), goroutines: min(g.idle.goroutines, now.goroutines)}
			return false
		})
	}
	w.tally = tally{ends: map[string]int{}}
}
