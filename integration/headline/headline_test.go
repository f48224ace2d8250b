package headline

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

var (
	size  = flag.Int("commands", 3000, "how many commands are run through the gateway; a tenth of them is run without it")
	seed  = flag.Uint64("seed", 0, "what the plan is drawn from (default: the time)")
	lanes = flag.Int("lanes", 3, "how many sandboxes each of the six programs uses at once, with four commands each")
	file  = flag.String("table", "", "the file that gets the table, in Markdown")
)

// sdks are the oldest generation, with threads, and the newest of either language.
var sdks = []string{"py-2.34.0-sync", "py-newest-sync", "js-2.51.0"}

var transports = []harness.Transport{harness.TLS1, harness.TLS2}

var protocols = map[harness.Transport]string{harness.TLS1: "HTTP/1.1", harness.TLS2: "HTTP/2"}

// promised is the least share of the commands that must have been killed: 10,000 of 53,000.
const promised = 10000.0 / 53000

// Field report A01: the reason why this project exists.
func TestNoCommandEndsInAnythingButItsResultOrTheTruth(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d -commands %d", *seed, *size)
	rows := make([]row, 0, len(sdks)*len(transports))
	for _, transport := range transports {
		for _, sdk := range sdks {
			rows = append(rows, row{sdk: sdk, protocol: protocols[transport]})
		}
	}
	through, wait := perform(t, byGateway, *size, strict)
	without, waitToo := perform(t, byCaddy, *size/10, brief)
	wait()
	waitToo()
	for i := range rows {
		rows[i].gateway, rows[i].raw = through[i], without[i]
	}
	text := table(rows)
	t.Logf("\n%s", text)
	if *file != "" {
		if err := os.WriteFile(*file, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
	check(t, rows)
}

// perform runs all cells at once, n commands together. The sums, in the order of the rows, are complete when wait returns.
func perform(t *testing.T, by proxying, n int, p patience) (sums []*sum, wait func()) {
	t.Helper()
	begun := time.Now()
	cells := len(transports) * len(sdks)
	var running sync.WaitGroup
	for _, transport := range transports {
		stage := open(t, by, transport)
		for i, sdk := range sdks {
			s := newSum(fmt.Sprintf("%s over %s through %s", sdk, protocols[transport], by))
			sums = append(sums, s)
			c := &cell{stage: stage, patience: p, sum: s, driver: drive(t, client.Named(t, sdk), stage.Deployment, 2*time.Hour)}
			draw := newPlanner(*seed, uint64(len(sums)), "abc"[i:i+1])
			share := (n + len(sums) - 1) / cells // all of them together are n
			running.Go(func() {
				c.run(t, draw.lives(share), *lanes)
				if err := c.driver.end(); err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
				show(t, c, by)
			})
		}
	}
	return sums, func() {
		running.Wait()
		t.Logf("%s: %d commands in %v", by, n, time.Since(begun).Round(time.Second))
	}
}

// show tells what there is to know about wrong outcomes: all of it through the gateway, the kinds without it.
func show(t *testing.T, c *cell, by proxying) {
	if by == byCaddy {
		t.Logf("%s: %v, %v", c.sum.name, c.sum.faults, c.sum.classes)
		return
	}
	for _, d := range c.sum.details {
		t.Errorf("%s: %s\n plan: %v\n double: %v\n program: %v\n log: %s", c.sum.name, d.fault, d.cmd, d.facts, d.out, c.logOf(d.cmd))
	}
}

func check(t *testing.T, rows []row) {
	t.Helper()
	commands, kills, foreign, unknowable := 0, 0, 0, 0
	killed := map[killing]int{}
	for _, r := range rows {
		commands += r.gateway.commands
		kills += r.gateway.kills()
		unknowable += r.gateway.unknowable
		foreign += r.raw.faults[isForeign]
		for fault, n := range r.gateway.faults {
			t.Errorf("%s: %d times: %s", r.gateway.name, n, fault)
		}
		for k, n := range r.gateway.killed {
			killed[k] += n
		}
	}
	for _, k := range columns {
		if killed[k] == 0 {
			t.Errorf("nothing was killed by %s", k)
		}
	}
	if float64(kills) < promised*float64(commands) {
		t.Errorf("%d of %d commands were killed, want at least %.0f", kills, commands, promised*float64(commands))
	}
	t.Logf("%d causes were told wrong only because the double was slow to evict a record", unknowable)
	if unknowable > kills/200 {
		t.Error("that is too many to know whether the causes are right")
	}
	if foreign == 0 {
		t.Error("without the gateway no program saw a foreign exception: the faults do not work")
	}
}
