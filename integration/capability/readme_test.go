package capability

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// The README's tables stand between these lines.
const (
	matrixBegin = "<!-- what works: written by go test ./integration/capability -update -->"
	matrixEnd   = "<!-- end of what works -->"
	errorsBegin = "<!-- what does not: written by go test ./integration/capability -update -->"
	errorsEnd   = "<!-- end of what does not -->"
)

func TestTheREADMESaysWhatWasSeen(t *testing.T) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "README.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	told := map[mode]*golden{}
	for _, m := range modes {
		told[m] = readGolden(t, m)
	}
	readme := fill(t, string(text), matrixBegin, matrixEnd, matrix(told))
	readme = fill(t, readme, errorsBegin, errorsEnd, failures(told))
	if readme == string(text) {
		return
	}
	if !*update {
		t.Fatal("the README's tables of calls are not those of testdata: run this test with -update")
	}
	if err := os.WriteFile(file, []byte(readme), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fill(t *testing.T, text, begin, end, table string) string {
	t.Helper()
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("the README has no %q with %q behind it", begin, end)
	}
	return before + begin + "\n" + table + end + after
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
		var seen []string
		for _, m := range of {
			if o := told[m].seen[name][client]; o != absent && !slices.Contains(seen, o) {
				seen = append(seen, o)
			}
		}
		switch {
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
