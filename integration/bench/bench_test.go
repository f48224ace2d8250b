package bench

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	rounds   = flag.Int("rounds", 11, "how often each contestant has its turn beside the gateway")
	turnTime = flag.Duration("turn", 400*time.Millisecond, "how much processor time of the contestant a turn takes, where it is not an amount of work")
	only     = flag.String("only", "", "a regular expression: which contestants take part, such as 'gateway$|respond|reverse_proxy$'")
	file     = flag.String("report", "", "the file that gets the report, in Markdown, when everything has run")
)

// load is one way of using a proxy.
type load struct {
	// name is what the load is called in -bench Promises/<name>.
	name string
	// run measures it and reports.
	run func(*scene, *report)
}

var loads = []load{
	{"unary", unaryH1},
	{"h2", unaryH2},
	{"streams", streams},
	{"files", files},
	{"idle", idle},
	{"churn", churn},
	{"cold", cold},
	{"steady", steady},
	{"paced", paced},
	{"allocations", allocations},
	{"routes", routes},
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Setenv(secretVariable, secret)
	var err error
	if scratch, err = os.MkdirTemp("", "bench-*"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// BenchmarkPromises runs the loads, reports, and fails where a promise is
// missed.
func BenchmarkPromises(b *testing.B) {
	c, p := takeCores(b), build(b)
	r := newReport(c)
	r.awake = keepAwake(b)
	ran := 0
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			from := r.mark()
			l.run(newScene(b, c, p), r)
			r.show(os.Stderr, from)
			ran++
		})
	}
	if ran == len(loads) && *only == "" && *file != "" {
		if err := os.WriteFile(*file, r.markdown(), 0o644); err != nil {
			b.Error(err)
		}
	}
	for _, p := range r.promises {
		if !p.met() {
			b.Errorf("missed: %s: %s, wanted %s", p.text, p.figure(), p.bound())
		}
	}
}
