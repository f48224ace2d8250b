package sdk

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// line is one check as a program prints it.
type line struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	// MS is how long the check took, in milliseconds.
	MS int64 `json:"ms"`
}

// program is a started SDK program.
type program struct{ *client.Process }

// start runs one of this package's programs.
func start(t testing.TB, c client.Client, d Deployment, limit time.Duration, name string, args ...string) *program {
	t.Helper()
	return &program{client.Start(t, c, d.Deployment, client.Program{Folder: "integration/sdk", Name: name, Args: args, Limit: limit})}
}

// report reads the program to its end and makes a subtest of every check. Each of wanted must have been seen once: a
// program that leaves a check out fails like one whose check does not hold.
func (p *program) report(t *testing.T, wanted []string) {
	t.Helper()
	defer p.Kill()
	seen := map[string]int{}
	failed := false
	for p.Out.Scan() {
		var l line
		decoder := json.NewDecoder(strings.NewReader(p.Out.Text()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&l); err != nil || l.Check == "" {
			t.Errorf("the program printed something that is no check: %q", p.Out.Text())
			continue
		}
		seen[l.Check]++
		failed = failed || !l.OK
		t.Run(l.Check, func(t *testing.T) {
			if !l.OK {
				t.Errorf("after %d ms: %s", l.MS, l.Detail)
			} else if l.Detail != "" {
				t.Logf("%d ms: %s", l.MS, l.Detail)
			}
		})
	}
	if err := p.Out.Err(); err != nil {
		t.Errorf("reading the program's output: %v", err)
	}
	err := p.Wait()
	if err != nil && !failed || err == nil && failed {
		t.Errorf("exit (%v) and checks (failed: %v) do not agree", err, failed)
	}
	for _, check := range append(slices.Clone(wanted), "end") {
		if seen[check] != 1 {
			t.Errorf("check %q was reported %d times, want once", check, seen[check])
		}
	}
	if err != nil || t.Failed() {
		t.Logf("exit: %v, stderr: %s", err, p.Stderr())
	}
}
