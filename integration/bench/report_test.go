package bench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// report is what a run found out.
type report struct {
	begun    time.Time
	cores    cores
	awake    bool // see keepAwake
	tables   []table
	promises []promise
}

// table is one load's figures.
type table struct {
	title string
	// text says what the load is and how to read the figures.
	text string
	// head names the columns; the first is the contestant's name.
	head []string
	rows [][]string
}

// promise is one that the project makes, with what came of it.
type promise struct {
	text  string
	value float64
	// least or most bound the value; the other is zero.
	least, most float64
	// write formats value and bound.
	write func(float64) string
}

func (p promise) met() bool {
	if p.most != 0 {
		return p.value <= p.most
	}
	return p.value >= p.least
}

func (p promise) figure() string { return p.write(p.value) }

func (p promise) bound() string {
	if p.most != 0 {
		return "at most " + p.write(p.most)
	}
	return "at least " + p.write(p.least)
}

func newReport(c cores) *report { return &report{begun: time.Now(), cores: c} }

func (r *report) add(t table) { r.tables = append(r.tables, t) }

// promise notes a promise, unless -only has left out whom it is about.
func (r *report) promise(p promise) {
	if *only == "" || !math.IsNaN(p.value) {
		r.promises = append(r.promises, p)
	}
}

// mark is a place in the report, for show.
func (r *report) mark() (place [2]int) { return [2]int{len(r.tables), len(r.promises)} }

// show writes what came after a mark.
func (r *report) show(w io.Writer, from [2]int) {
	part := report{tables: r.tables[from[0]:], promises: r.promises[from[1]:]}
	var b bytes.Buffer
	part.writeTables(&b)
	part.writePromises(&b)
	_, _ = w.Write(b.Bytes())
}

// markdown is the whole report.
func (r *report) markdown() []byte {
	var b bytes.Buffer
	b.WriteString("# Benchmarks\n\nWritten by `make bench`; not to be edited by hand.\n\n")
	r.writePromises(&b)
	b.WriteString("## Method\n\n" + method + "\n")
	r.writeMachine(&b)
	r.writeTables(&b)
	return b.Bytes()
}

const method = `Each contestant is a process of its own and has one core to itself. The load generator, the upstream and redis-server share the other, and are
written to cost next to nothing. Where latencies are measured the generator and the upstream are on the contestant's core, so that no message waits until a core has woken up. All contestants have the same upstream and the same load. They take turns, each of as much
processor time or as much work as the others', in pairs: the gateway and one of the others, one right after the other, and who begins changes. A figure is the
median of all turns, a ratio the median of the ratios of each pair, so that what else the machine does hits both sides alike. Every answer is checked.

Processor time is the contestant's own, user and system, as the kernel keeps it for the process (nanoseconds). Of loopback TCP the kernel does the
receiver's work for packets while the sender sends, so a part of what a network card would cost a proxy is not in it, the same for all. "Busy" is the share of
its core that the contestant used: far below 100 % it waited for the generator, and its requests per CPU-second would rather be a little more.

This gateway has everything on: API keys, access tokens, ROCK's registry in a real redis-server with its cache, limits, metrics, the listener
wrapper. Its metrics are its own, docs/metrics.md; Caddy's HTTP metrics are off but in the row that says so. In stock Caddy they are on, but in the row that says so.
Nobody else authenticates anybody. Stock Caddy is built from the same version, without this module. ` + "`respond`" + ` is a path on the gateway's own site,
in a process of its own: the floor that any handler of Caddy stands on.
`

func (r *report) writeMachine(b *bytes.Buffer) {
	var uts unix.Utsname
	kernel := "unknown"
	if unix.Uname(&uts) == nil {
		kernel = unix.ByteSliceToString(uts.Release[:])
	}
	sleep := "which could sleep while they had nothing to do"
	if r.awake {
		sleep = "kept from sleeping while they had nothing to do (`/dev/cpu_dma_latency`)"
	}
	fmt.Fprintf(b, "## Machine\n\n%s, %s, %d processors, %s, %s, Linux %s, %d rounds, %s.\n\n",
		r.begun.UTC().Format("2006-01-02 15:04 UTC"), processorModel(), runtime.NumCPU(), sleep, runtime.Version(), kernel, *rounds,
		time.Since(r.begun).Round(time.Second))
}

// processorModel is what the kernel calls the processor.
func processorModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			_, name, _ = strings.Cut(name, ":")
			return strings.TrimSpace(name)
		}
	}
	return "an unknown processor"
}

func (r *report) writePromises(b *bytes.Buffer) {
	if len(r.promises) == 0 {
		return
	}
	b.WriteString("## Promises\n\n| promise | measured | bound | |\n|---|--:|--:|---|\n")
	for _, p := range r.promises {
		verdict := "met"
		if !p.met() {
			verdict = "**missed**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", p.text, p.figure(), p.bound(), verdict)
	}
	b.WriteString("\n")
}

func (r *report) writeTables(b *bytes.Buffer) {
	for _, t := range r.tables {
		fmt.Fprintf(b, "## %s\n\n%s\n\n| %s |\n|---%s|\n", t.title, t.text, strings.Join(t.head, " | "), strings.Repeat("|--:", len(t.head)-1))
		for _, row := range t.rows {
			fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		}
		b.WriteString("\n")
	}
}
