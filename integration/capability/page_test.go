package capability

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/document"
	"github.com/caddy-e2b/gateway/integration/harness"
)

// The tables of docs/compatibility.md stand between these lines.
const (
	sdksBegin   = "<!-- SDKs: written by go test ./integration/capability -update -->"
	sdksEnd     = "<!-- end of SDKs -->"
	matrixBegin = "<!-- what works: written by go test ./integration/capability -update -->"
	matrixEnd   = "<!-- end of what works -->"
	errorsBegin = "<!-- what does not: written by go test ./integration/capability -update -->"
	errorsEnd   = "<!-- end of what does not -->"
)

func TestTheCompatibilityPageSaysWhatWasSeen(t *testing.T) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "docs", "compatibility.md")
	told := map[mode]*golden{}
	for _, m := range modes {
		told[m] = readGolden(t, m)
	}
	document.Part(t, file, sdksBegin, sdksEnd, sdks(told))
	document.Part(t, file, matrixBegin, matrixEnd, matrix(told))
	document.Part(t, file, errorsBegin, errorsEnd, failures(told))
}

// What was seen and written down keeps the promises, without asking anybody
// again: nobody relaxes a promise, or commits a worse outcome, unseen.
func TestWhatIsWrittenKeepsThePromises(t *testing.T) {
	for _, m := range modes {
		if m == alone {
			continue
		}
		g := readGolden(t, m)
		everyCall(func(c call) {
			for _, by := range clientNames() {
				t.Run(string(m)+"/"+by+"/"+c.Name, func(t *testing.T) {
					promise(t, m, by, c.Name, parse(g.seen[c.Name][by]))
				})
			}
		})
	}
}

var toldForm = regexp.MustCompile(`^(\w+)( raw)? ?((?:HTTP )?\w*): (.*)$`)

// parse reads what [told.String] writes.
func parse(text string) told {
	found := toldForm.FindStringSubmatch(text)
	if found == nil {
		return told{Outcome: text}
	}
	return told{Outcome: found[1], Class: found[3], Text: found[4], Typed: found[1] == raised && found[2] == ""}
}

// columns of the table, each with the modes that it sums up.
var columns = []struct {
	name  string
	modes []mode
}{
	{"ROCK alone", []mode{alone}},
	{"gateway as it comes, shared URL", []mode{shared}},
	{"gateway with all options, `domain`", []mode{domainH1, domainH2}},
	{"the same, envd in the sandbox", []mode{withEnvd}},
}

// sdks is the table of how many calls work with which SDK.
func sdks(told map[mode]*golden) string {
	var b strings.Builder
	b.WriteString("| SDK |")
	for _, c := range columns {
		b.WriteString(" " + c.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, client := range clientNames() {
		fmt.Fprintf(&b, "| `%s` |", client)
		for _, column := range columns {
			working, all := 0, 0
			everyCall(func(c call) {
				switch seen := outcomes(told, column.modes, c.Name, client); {
				case len(seen) == 0:
				case slices.Equal(seen, []string{works}):
					working++
					fallthrough
				default:
					all++
				}
			})
			fmt.Fprintf(&b, " %d of %d |", working, all)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// outcomes are those of a call by one SDK, each once, in all modes of a column
// in which it can be made.
func outcomes(told map[mode]*golden, of []mode, name, client string) (seen []string) {
	for _, m := range of {
		if o := told[m].seen[name][client]; o != absent && !slices.Contains(seen, o) {
			seen = append(seen, o)
		}
	}
	return seen
}

// matrix is the table of what works.
func matrix(told map[mode]*golden) string {
	var b strings.Builder
	b.WriteString("| call | test |")
	for _, c := range columns {
		b.WriteString(" " + c.name + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, a := range areas {
		fmt.Fprintf(&b, "| **%s** | |%s\n", a.Name, strings.Repeat(" |", len(columns)))
		for _, c := range a.Calls {
			fmt.Fprintf(&b, "| `%s` | `%s` |", c.Text, c.Name)
			for _, column := range columns {
				b.WriteString(" " + cell(told, column.modes, c.Name) + " |")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// cell says with which SDKs a call works: ✓ is all that have it, – none.
func cell(told map[mode]*golden, of []mode, name string) string {
	var working, failing []string
	for _, client := range clientNames() {
		switch seen := outcomes(told, of, name, client); {
		case len(seen) == 0:
		case slices.Equal(seen, []string{works}):
			working = append(working, client)
		default:
			failing = append(failing, client)
		}
	}
	switch {
	case len(failing) == 0:
		return "✓"
	case len(working) == 0:
		return "–"
	}
	return "✓ " + labels(working)
}

// labels are the SDKs as users know them.
func labels(clients []string) string {
	var versions = map[string][]string{}
	for _, client := range clients {
		language, version, _ := strings.Cut(client, "-")
		version, _, _ = strings.Cut(version, "-")
		if !slices.Contains(versions[language], version) {
			versions[language] = append(versions[language], version)
		}
	}
	var all []string
	if v := versions["py"]; v != nil {
		all = append(all, "Python "+strings.Join(v, ", "))
	}
	if v := versions["js"]; v != nil {
		all = append(all, "JavaScript "+strings.Join(v, ", "))
	}
	return strings.Join(all, "; ")
}

// failures is the table of what does not work behind the gateway, and how that looks to a program.
func failures(told map[mode]*golden) string {
	var b strings.Builder
	b.WriteString("| call | Python raises | JavaScript throws | text |\n|---|---|---|---|\n")
	everyCall(func(c call) {
		if python, js, text := failure(told[domainH2], c.Name); text != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Text, python, js, text)
			return
		}
		if python, js, text := failure(told[shared], c.Name); text != "" {
			fmt.Fprintf(&b, "| `%s`, as it comes | %s | %s | %s |\n", c.Text, python, js, text)
		}
	})
	return b.String()
}

var (
	outcomeForm = regexp.MustCompile(`^(?:raised|refused) ((?:HTTP )?\w+): (.*)$`)
	// prefix is what the SDKs put before the text of a server.
	prefix = regexp.MustCompile(`^(?:\d+: |Code\.\w+: |\[\w+\] )+`)
	// message is the text in an answer that no SDK has read.
	message = regexp.MustCompile(`"message":"([^"]*)"`)
)

func failure(g *golden, name string) (python, js, text string) {
	var texts []string
	classes := map[string][]string{}
	for _, client := range clientNames() {
		if g.seen[name][client] == elsewhere {
			return "nothing", "nothing", "it names a host at e2b.app, which does not lead here"
		}
		found := outcomeForm.FindStringSubmatch(g.seen[name][client])
		if found == nil {
			continue
		}
		said := prefix.ReplaceAllString(found[2], "")
		if answer := message.FindStringSubmatch(said); answer != nil {
			said = answer[1]
		}
		if !slices.Contains(texts, said) {
			texts = append(texts, said)
		}
		language := client[:2]
		if class := "`" + found[1] + "`"; !slices.Contains(classes[language], class) {
			classes[language] = append(classes[language], class)
		}
	}
	return strings.Join(classes["py"], ", "), strings.Join(classes["js"], ", "), strings.Join(texts, "; ")
}
