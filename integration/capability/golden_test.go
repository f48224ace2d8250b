package capability

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-e2b/gateway/integration/document"
)

// golden is what testdata says of one mode. A file has a line for each outcome of a call: the call, the clients that saw it, or "all", and
// the outcome, with a tab between.
type golden struct {
	mode mode
	mu   sync.Mutex
	seen map[string]map[string]string // by call and client
}

func (m mode) file() string { return filepath.Join("testdata", string(m)+".txt") }

func readGolden(t testing.TB, m mode) *golden {
	t.Helper()
	g := &golden{mode: m, seen: map[string]map[string]string{}}
	everyCall(func(c call) { g.seen[c.Name] = map[string]string{} })
	text, err := os.ReadFile(m.file())
	if err != nil && !document.Updating() {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		field := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(field) != 3 || g.seen[field[0]] == nil {
			if document.Updating() {
				continue
			}
			t.Fatalf("%s: %q", m.file(), line)
		}
		clients := strings.Fields(field[1])
		if field[1] == "all" {
			clients = clientNames()
		}
		for _, name := range clients {
			g.seen[field[0]][name] = field[2]
		}
	}
	return g
}

// check compares an outcome with what is written, or takes it down with -update.
func (g *golden) check(t *testing.T, by, name string, got told) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if document.Updating() {
		g.seen[name][by] = got.String()
		return
	}
	if want := g.seen[name][by]; got.String() != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// write writes the file with -update.
func (g *golden) write(t *testing.T) {
	t.Helper()
	if !document.Updating() {
		return
	}
	var b strings.Builder
	everyCall(func(c call) {
		outcomes, by := g.grouped(c.Name)
		for _, outcome := range outcomes {
			clients := strings.Join(by[outcome], " ")
			if len(outcomes) == 1 {
				clients = "all"
			}
			fmt.Fprintf(&b, "%s\t%s\t%s\n", c.Name, clients, outcome)
		}
	})
	if err := os.WriteFile(g.mode.file(), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// grouped are the outcomes of a call and who saw each, both in the order of the clients.
func (g *golden) grouped(name string) (outcomes []string, by map[string][]string) {
	by = map[string][]string{}
	for _, client := range clientNames() {
		outcome := g.seen[name][client]
		if !slices.Contains(outcomes, outcome) {
			outcomes = append(outcomes, outcome)
		}
		by[outcome] = append(by[outcome], client)
	}
	return outcomes, by
}
