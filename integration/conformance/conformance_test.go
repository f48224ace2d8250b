package conformance

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	full    = flag.Bool("full", false, "run all of the suite, not a few hundred cases of it")
	figures = flag.String("figures", "", "a file to leave the table in")
)

// plan is one way to run the suite.
type plan struct {
	name, as string
	port     int
	config   string   // in testdata/
	only     []string // which cases of it, none for all
	quick    []string // which cases are run where not all are, none for not at all
	front    front    // of a client
	known    []difference
}

// difference is cases that end otherwise at the gateway because they shall. Each that it names must, and whatever line the suite
// says of it is what fails matches as a whole.
type difference struct{ cases, fails, because string }

// quickCalls and quickAnswers are the cases of `make test`: of each way in some, and every protocol.
var (
	quickCalls = []string{
		"Errors/HTTPVersion:1/Protocol:PROTOCOL_CONNECT/Codec:CODEC_PROTO/**/TLS:false/**", "Errors/HTTPVersion:2/Protocol:PROTOCOL_GRPC/Codec:CODEC_PROTO/**/TLS:true/**",
		"Basic/HTTPVersion:1/Protocol:PROTOCOL_GRPC_WEB/**/TLS:true/**",
	}
	quickAnswers = []string{"Connect Unexpected Responses/**", "gRPC-Web Unexpected Responses/**"}
)

// whileOpen are the cases of full duplex over HTTP/1.1 that an HTTP/1.1 server in Go can do. The suite itself runs no full duplex over
// HTTP/1.1, and its server is reached so. What is left out are calls that the server ends before its client has: connect-go closes
// the request's body before it flushes that end, net/http reads the body to its end for it, and both sides wait. That is so without the
// gateway as well (handlers, TestAnEndThatWaitsForTheRequestWaitsWithoutTheGatewayToo); such a call lasts until its client leaves.
var whileOpen = []string{"**/full-duplex/success", "**/full-duplex/all-requests-equal-to-server-limit", "Timeouts/**"}

var plans = []plan{
	{name: "calls of an app's port", as: "server", port: app, config: "app.yaml", quick: quickCalls},
	{name: "calls of envd's port", as: "server", port: envd, config: "envd.yaml", quick: quickCalls, known: envdTranslates},
	{name: "full duplex at an app's port", as: "server", port: app, config: "duplex-app.yaml", only: whileOpen},
	{name: "full duplex at envd's port", as: "server", port: envd, config: "duplex-envd.yaml", only: whileOpen},
	{name: "answers of an app, HTTP/1.1", as: "client", port: app, config: "answers.yaml", front: front{Version: http1}},
	{name: "answers of an app, HTTP/2 and TLS", as: "client", port: app, config: "answers.yaml", quick: quickAnswers, front: front{Version: http2, TLS: true}},
	{name: "answers of an app, gRPC", as: "client", port: app, config: "answers-grpc.yaml", front: front{Version: http2}},
	{name: "answers of an app, gRPC and TLS", as: "client", port: app, config: "answers-grpc.yaml", front: front{Version: http2, TLS: true}},
}

func TestEveryCaseEndsAsItDoesWithoutTheGateway(t *testing.T) {
	r := newRig(t)
	var table strings.Builder
	table.WriteString("| | cases | passed without the gateway | passed through it | otherwise on purpose | took |\n|---|---|---|---|---|---|\n")
	without := map[string]outcome{}
	for _, p := range plans {
		if !*full && p.quick == nil {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			r.T = t
			direct, ok := without[p.as+p.config]
			if *full && !ok {
				direct = p.direct(r)
				without[p.as+p.config] = direct
			}
			through := p.through(r)
			p.compare(t, direct, through)
			row := fmt.Sprintf("| %s | %d | %d | %d | %d | %v, %v |\n", p.name, len(through.cases), direct.passed(), through.passed(), len(through.failed),
				direct.took.Round(time.Second), through.took.Round(time.Second))
			t.Log(row)
			table.WriteString(row)
		})
	}
	r.T = t
	if *figures != "" {
		if err := os.WriteFile(*figures, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// arguments are the runner's, for the program that it shall start.
func (p plan) arguments(r *rig, program string) []string {
	config, err := filepath.Abs(filepath.Join("testdata", p.config))
	if err != nil {
		r.Fatal(err)
	}
	all := []string{"--conf", config, "--mode", p.as}
	if p.as == "server" {
		all = append(all, "--parallel", "8")
	} else {
		// The record of the sandbox has one port.
		_, port, _ := net.SplitHostPort(r.Addresses[1])
		all = append(all, "--port", port)
	}
	run := p.only
	if !*full {
		run = p.quick
	}
	for _, cases := range run {
		all = append(all, "--run", cases)
	}
	return append(all, "--", program)
}

func (p plan) direct(r *rig) outcome {
	r.Helper()
	return r.run(nil, p.arguments(r, r.program("reference"+p.as))...)
}

func (p plan) through(r *rig) outcome {
	r.Helper()
	s := r.stage
	s.As, s.Port, s.Front = p.as, p.port, p.front
	s.Front.Address = s.Addresses[0]
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	return r.run(&s, p.arguments(r, self)...)
}

// compare holds both runs against each other, case by case.
func (p plan) compare(t *testing.T, direct, through outcome) {
	t.Helper()
	if len(through.cases) < 20 {
		t.Errorf("only %d cases", len(through.cases))
	}
	// The suite's own programs pass all of it; `make test` takes that for granted.
	if *full && (len(direct.cases) != len(through.cases) || len(direct.failed) > 0) {
		t.Errorf("without the gateway %d of %d cases failed: %v", len(direct.failed), len(direct.cases), sorted(direct.failed))
	}
	for name := range direct.cases {
		if !through.cases[name] {
			t.Errorf("%s was not run through the gateway", name)
		}
	}
	explained := map[string]*regexp.Regexp{}
	for _, known := range p.known {
		which, met := regexp.MustCompile(known.cases), false
		fails := regexp.MustCompile(`^(?:` + known.fails + `)$`)
		for name := range through.cases {
			if which.MatchString(name) {
				explained[name], met = fails, true
			}
		}
		if !met && *full {
			t.Errorf("no case is %s", known.cases)
		}
	}
	for name := range through.cases {
		switch why, failed := through.failed[name]; {
		case failed && explained[name] == nil:
			t.Errorf("%s:\n%s", name, why)
		case failed && !onlyLines(why, explained[name]):
			t.Errorf("%s ends otherwise than it was said to:\n%s", name, why)
		case !failed && explained[name] != nil:
			t.Errorf("%s was said to end otherwise, and did not", name)
		}
	}
}

// onlyLines reports that there are lines, and that each is of one kind.
func onlyLines(why string, kind *regexp.Regexp) bool {
	for line := range strings.Lines(why) {
		if !kind.MatchString(strings.TrimSpace(line)) {
			return false
		}
	}
	return why != ""
}
