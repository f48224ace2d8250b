package chaos

import (
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// A process's wall clock is the machine's, and to set that would set it for everybody. What preloads a library (libfaketime) does not
// reach Go, which asks the kernel past libc; time namespaces have no wall clock. So the gateway of this world is built from the same
// source with one line more in Go's own time.Now, which adds a number that stands in the process's memory, and the suite writes that
// number. Monotonic time goes on as it does when a real clock is set.

// jumpLine is put behind the line that reads the clock.
const (
	clockLine = "\tsec, nsec, mono := runtimeNow()\n"
	jumpLine  = "\tsec += jump\n"
	jumpVar   = "\n// jump is how many seconds the wall clock is off.\nvar jump int64\n"
)

// clockBinary is the gateway whose clock can be set, built once.
func clockBinary(t testing.TB) string {
	t.Helper()
	program, err := buildClock()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

var buildClock = sync.OnceValues(func() (string, error) {
	root, err := harness.Root()
	if err != nil {
		return "", err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	// At one place, because Go keeps what it has built of it, which is nearly everything.
	dir := filepath.Join(root, ".cache", "chaos")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// A toolchain that Go has downloaded lies among the modules, where Go lets nothing be replaced. By another name it does.
	here := filepath.Join(dir, "goroot")
	if err := os.Remove(here); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.Symlink(strings.TrimSpace(string(goroot)), here); err != nil {
		return "", err
	}
	source := filepath.Join(here, "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	if strings.Count(string(text), clockLine) != 1 {
		return "", fmt.Errorf("%s is not what this suite knows: it has no line %q", source, clockLine)
	}
	changed := strings.Replace(string(text), clockLine, clockLine+jumpLine, 1) + jumpVar
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: filepath.Join(dir, "time.go")}})
	if err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{"time.go": []byte(changed), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", err
		}
	}
	program := filepath.Join(dir, "e2b-gateway-clock")
	cmd := exec.Command(filepath.Join(here, "bin", "go"), "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./cmd/e2b-gateway")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOROOT="+here, "GOTOOLCHAIN=local")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the gateway with another clock: %w\n%s", err, out)
	}
	return program, nil
})

// setClock sets the wall clock of a process off by a time.
func setClock(t testing.TB, g *gateway, by time.Duration) {
	t.Helper()
	place, err := jumpPlace(clockBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", g.PID()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	b := binary.NativeEndian.AppendUint64(nil, uint64(int64(by/time.Second)))
	if _, err := memory.WriteAt(b, place); err != nil {
		t.Fatal(err)
	}
}

// jumpPlace is where time.jump stands in the memory of the program.
func jumpPlace(program string) (int64, error) {
	f, err := elf.Open(program)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	all, err := f.Symbols()
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if s.Name == "time.jump" {
			return int64(s.Value), nil
		}
	}
	return 0, fmt.Errorf("%s has no time.jump", program)
}

var clockFaults = []fault{
	{name: "the clock jumps", fits: func(k kind) bool { return k.special == clocked }, weight: 16, once: true, family: "gateway", begin: func(w *world, s step) func() {
		jumps := []time.Duration{time.Second, time.Minute, time.Hour, 400 * 24 * time.Hour}
		by := jumps[s.b%len(jumps)]
		if s.c%2 == 0 {
			by = -by
		}
		g := w.gateways[s.a%len(w.gateways)]
		setClock(w, g, by)
		// It is checked that it is so: a clock that does not jump proves nothing.
		if off := time.Until(g.clock(w)) - by; off.Abs() > 10*time.Second {
			w.Errorf("seed %d: the clock of gateway %d should be off by %v, and is off by %v more", w.seed, g.number, by, off)
		}
		return func() {
			if s.c%3 > 0 {
				setClock(w, g, 0)
			}
		}
	}},
}

// clock asks a gateway what time it is.
func (g *gateway) clock(t testing.TB) time.Time {
	t.Helper()
	r, err := g.client().Get(g.url + "/there-is-no-such-call")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	at, err := time.Parse(time.RFC1123, r.Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	return at
}
