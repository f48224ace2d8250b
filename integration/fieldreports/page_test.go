package fieldreports

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const (
	root = "../.."
	file = root + "/docs/field-reports.md"
)

// columns of a table: id, what goes wrong, what we hold, tests, where we differ.
const columns = 5

// A report is a row of a table of the page.
type report struct {
	id      string
	section string // the letter of the heading that it stands below
	wrong   string // what goes wrong in the field
	holds   string // the outcome that is held here
	tests   []test
	differs string // why there is no test, or why the outcome is another one than the report's
}

// A test is a function in the tests of a package: `handlers.TestX`, `integration/edge.TestY`.
type test struct{ dir, name string }

func (t test) String() string { return t.dir + "." + t.name }

var (
	heading = regexp.MustCompile(`^## ([A-Z])\. `)
	rowForm = regexp.MustCompile(`^\| ([A-Z][0-9]{2}) \|`)
	named   = regexp.MustCompile("^`([a-z0-9/_]+)\\.((?:Test|Fuzz)\\w+)`$")
)

// page reads the rows of all tables, in their order.
func page(t *testing.T) []report {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var reports []report
	section := ""
	for line := range strings.Lines(string(text)) {
		if begins := heading.FindStringSubmatch(line); begins != nil {
			section = begins[1]
		}
		if !rowForm.MatchString(line) {
			continue
		}
		// A | within a cell is written as \| and is none of the table's.
		cells := strings.Split(strings.Trim(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00"), "|"), "|")
		if len(cells) != columns {
			t.Errorf("%d cells instead of %d: %s", len(cells), columns, line)
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|"))
		}
		reports = append(reports, report{
			id: cells[0], section: section, wrong: cells[1], holds: cells[2],
			tests: tests(t, cells[0], cells[3]), differs: cells[4],
		})
	}
	return reports
}

// tests reads a cell: names in code, with commas between them.
func tests(t *testing.T, id, cell string) (found []test) {
	t.Helper()
	if cell == "" {
		return nil
	}
	for name := range strings.SplitSeq(cell, ", ") {
		parts := named.FindStringSubmatch(name)
		if parts == nil {
			t.Errorf("%s: %q is no `package.TestName`", id, name)
			continue
		}
		found = append(found, test{parts[1], parts[2]})
	}
	return found
}

func byName(a, b test) int { return strings.Compare(a.String(), b.String()) }
