package soak

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// result is all that the report says.
type result struct {
	begun                 time.Time
	length, warmUp, pace  time.Duration
	lasted                time.Duration
	full                  float64 // calls a second
	streams               int
	calls                 *tally
	faults                map[string]int
	samples               []sample
	growths               []growth // nil if the load was too short to compare
	restBefore, restAfter map[measure]int
}

// text is the page.
func (r *result) text(t testing.TB) string {
	var b strings.Builder
	sum, made := r.calls.sum(), 0
	for _, n := range r.faults {
		made += n
	}
	fmt.Fprintf(&b, `# Soak

**This page is written by `+"`make soak`"+`**, which serves mixed traffic at half load while things go wrong, and asks whether any answer was wrong and
whether the gateway grows. What is real: the gateway's binary, Redis, the sockets, the commands in sandboxes. ROCK is the double of
[integration/rock](../integration/rock). All of it, the clients too, runs on one machine: the figures of the load are of that machine and say
nothing about what a gateway can do alone; [benchmarks.md](benchmarks.md) has that.

| | |
|---|---|
| when | %s |
| version | %s |
| machine | %s |
| lasted | %v under load: %v of warm-up, then %v that are judged |
| full load | %.0f calls a second, measured before: %d callers, one call after another |
| load | %.0f calls a second, half of that, were asked for; %.0f a second were made. Beside them %d streams, each a command that says a line a second |
| calls | %d: %d answered as asked, %d told what was truly wrong at that time, **%d wrong** |
| faults | %d, one every %v or when the one before was over |
| **verdict** | **%s** |

`, r.begun.UTC().Format("2006-01-02 15:04 UTC"), version(t), machine(), (r.warmUp + r.length), r.warmUp, r.length, r.full, callers,
		r.full/2, float64(sum.calls()-r.calls.rows[aMinute].calls())/(r.warmUp+r.length).Seconds(), r.streams, sum.calls(), sum.right, sum.told, sum.wrong, made, r.pace, r.verdict())

	b.WriteString(`## Does it grow?

The median of the samples of the first third after the warm-up, and of the last third.

| | first third | last third | at most | |
|---|---|---|---|---|
`)
	growthRows(&b, r.growths)
	b.WriteString(`
The gateway without a call, before any load and after all of it. The heap is what is left after a collection; sockets in use are all but
those that are kept for a later call, to Redis and to ROCK.

| | before | after | at most | |
|---|---|---|---|---|
`)
	growthRows(&b, atRest(r.restBefore, r.restAfter))

	b.WriteString(`
## What was called

Half of the calls over HTTP/1.1 and half over HTTP/2, all over TLS. Each answer is held against what was asked for: bytes and ids must be those of the very
sandbox, a stream must end in its protocol, a sandbox that was killed must be gone. *Told* are errors in the words of the protocol that were true of
that sandbox while the call ran: "not found" only of one that was killed, "connection lost" only of one that died or when ROCK's proxy role reset all calls, 503 only while
Redis was away. An error that nothing explains is wrong, and so is every error during a reload, or of a sandbox beside one that died.

| | calls | as asked | told | wrong |
|---|---|---|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(r.calls.rows)) {
		row := r.calls.rows[name]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", name, row.calls(), row.right, row.told, row.wrong)
	}
	b.WriteString("\n## What went wrong on purpose\n\nOne after the other. Nobody creates or kills sandboxes while Redis is away, because ROCK loses records that it cannot write.\n\n| | times |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, r.faults[name])
	}
	b.WriteString("\nClients that leave without a word are among the calls.\n\n## Samples\n\n")
	r.sampleRows(&b)
	return b.String()
}

func (r *result) verdict() string {
	wrong := r.calls.sum().wrong
	grown := slices.ContainsFunc(append(atRest(r.restBefore, r.restAfter), r.growths...), func(g growth) bool { return !g.flat() })
	switch {
	case wrong > 0:
		return fmt.Sprintf("%d wrong answers", wrong)
	case grown:
		return "it grows"
	case r.growths == nil:
		return "no wrong answer; too short to say whether it grows"
	default:
		return "flat, and no wrong answer"
	}
}

func growthRows(b *strings.Builder, all []growth) {
	for _, g := range all {
		word := "flat"
		if !g.flat() {
			word = "**grows**"
		}
		fmt.Fprintf(b, "| %s | %d | %d | %d | %s |\n", g.measure, g.first, g.last, g.bound, word)
	}
}

// shown is about how many samples are in the report.
const shown = 40

func (r *result) sampleRows(b *strings.Builder) {
	step := max(1, len(r.samples)/shown)
	fmt.Fprintf(b, "One of %d; %d were taken, the first of them in the warm-up.\n\n| after | calls |", step, len(r.samples))
	for _, m := range measures {
		fmt.Fprintf(b, " %s |", m.measure)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(measures)) + "\n")
	for i := 0; i < len(r.samples); i += step {
		fmt.Fprintf(b, "| %v | %d |", r.samples[i].at.Round(time.Second), r.samples[i].calls)
		for _, m := range measures {
			fmt.Fprintf(b, " %d |", r.samples[i].of[m.measure])
		}
		b.WriteString("\n")
	}
}

// version is the commit, and whether something was changed since.
func version(t testing.TB) string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		t.Logf("git: %v", err)
		return "not of a checkout, " + runtime.Version()
	}
	return "commit " + strings.TrimSpace(string(out)) + ", " + runtime.Version()
}

// machine is what Linux says of it.
func machine() string {
	model := "processor unknown"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(info), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			model = strings.Trim(line, " \t:")
		}
	}
	memory := ""
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int
		if _, err := fmt.Sscanf(string(info), "MemTotal: %d", &kib); err == nil {
			memory = fmt.Sprintf(", %d GiB", (kib+1<<19)>>20)
		}
	}
	return fmt.Sprintf("%s/%s, %d processors: %s%s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model, memory)
}
