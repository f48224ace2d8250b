package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// Of the gateways of the world that has little memory: what Go is told to keep to, and what the kernel gives at the most.
const (
	softMemory = "48MiB"
	hardMemory = 192 << 10 // KiB
)

// smallBinary is a program that runs the gateway with little memory.
func smallBinary(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "e2b-gateway")
	script := fmt.Sprintf("#!/bin/sh\nulimit -d %d\nGOMEMLIMIT=%s exec %s \"$@\"\n", hardMemory, softMemory, harness.Build(t))
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program
}

var limitFaults = []fault{
	{name: "a gateway may open few files", fits: func(k kind) bool { return k.special == limited }, weight: 10, once: true, family: "gateway",
		begin: func(w *world, s step) func() {
			g := w.gateways[s.b%len(w.gateways)]
			now, err := g.footprint()
			if err != nil {
				w.Fatal(err)
			}
			var had unix.Rlimit
			few := unix.Rlimit{Cur: uint64(now.files + s.c%8)}
			if err := unix.Prlimit(g.PID(), unix.RLIMIT_NOFILE, nil, &had); err != nil {
				w.Fatal(err)
			}
			few.Max = had.Max
			if err := unix.Prlimit(g.PID(), unix.RLIMIT_NOFILE, &few, nil); err != nil {
				w.Fatal(err)
			}
			return func() {
				if err := unix.Prlimit(g.PID(), unix.RLIMIT_NOFILE, &had, nil); err != nil {
					w.Fatal(err)
				}
			}
		}},
}
