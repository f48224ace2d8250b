package headline

import (
	"fmt"
	"strings"
	"sync"
)

// sum is what came out of one cell.
type sum struct {
	name string

	mu         sync.Mutex
	commands   int
	killed     map[killing]int
	exceptions int // the SDK's own
	results    int
	faults     map[fault]int
	classes    map[string]int // of foreign exceptions
	details    []detail       // of the first faults
	unknowable int            // outcomes that are right only because the double was slow, each time
}

// detail is one wrong outcome.
type detail struct {
	cmd   command
	facts facts
	out   outcome
	fault fault
}

// maxDetails is how many wrong outcomes of a cell are shown.
const maxDetails = 10

func newSum(name string) *sum {
	return &sum{name: name, killed: map[killing]int{}, faults: map[fault]int{}, classes: map[string]int{}}
}

// count takes one outcome in. It reports one that is right only because the double was slow.
func (s *sum) count(cmd command, f facts, o outcome) (slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands++
	if k := killedBy(cmd, f, o); k != byNothing {
		s.killed[k]++
	}
	switch {
	case o.hang:
	case o.Error == nil:
		s.results++
	case o.Error.Sandbox:
		s.exceptions++
	default:
		s.classes[o.Error.Class]++
	}
	v := judge(cmd, f, o)
	if v == isRight {
		return unknowable(cmd, f, o)
	}
	s.faults[v]++
	if len(s.details) < maxDetails {
		s.details = append(s.details, detail{cmd, f, o, v})
	}
	return false
}

// giveUp counts outcomes that stay unknowable.
func (s *sum) giveUp(unknowable int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknowable += unknowable
}

func (s *sum) kills() (n int) {
	for _, k := range s.killed {
		n += k
	}
	return n
}

// row is a pair of cells of the same SDK and transport.
type row struct {
	sdk, protocol string
	gateway, raw  *sum
}

// columns of killings, in the order of the table.
var columns = []killing{byReset, byFIN, midEnvelope, byClean, bySilence, byTimeout, byPause, byDelete, byExpiry}

// table is the README's: what was killed, and what the programs saw of it.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| SDK | protocol | commands | killed |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("--:|", 2+len(columns)) + "\n")
	total := newSum("all")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %d | %d |", r.sdk, r.protocol, r.gateway.commands, r.gateway.kills())
		for _, c := range columns {
			fmt.Fprintf(&b, " %d |", r.gateway.killed[c])
			total.killed[c] += r.gateway.killed[c]
		}
		total.commands += r.gateway.commands
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "| **all** | | **%d** | **%d** |", total.commands, total.kills())
	for _, c := range columns {
		fmt.Fprintf(&b, " %d |", total.killed[c])
	}
	b.WriteString("\n\n| SDK | protocol | through | commands | killed | results | sandbox exceptions | foreign exceptions | hangs | lost results | wrong causes | unknowable causes |\n")
	b.WriteString("|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range rows {
		for _, s := range []struct {
			by proxying
			*sum
		}{{byGateway, r.gateway}, {byCaddy, r.raw}} {
			fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", r.sdk, r.protocol, s.by, s.commands, s.kills(), s.results,
				s.exceptions, s.faults[isForeign], s.faults[isHang], s.faults[lostIt], s.faults[isWrong], s.unknowable)
		}
	}
	return b.String()
}
