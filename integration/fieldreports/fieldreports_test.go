package fieldreports

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

// known is how many failures are known from the field; the page has a row for each.
const known = 144

func TestThePageHasARowForEachReport(t *testing.T) {
	reports := page(t)
	if len(reports) != known {
		t.Errorf("%d rows instead of %d", len(reports), known)
	}
	last := ""
	for _, r := range reports {
		switch {
		case r.id <= last:
			t.Errorf("%s stands behind %s", r.id, last)
		case r.section != r.id[:1]:
			t.Errorf("%s stands below the heading of %s", r.id, r.section)
		}
		last = r.id
	}
}

func TestEachReportSaysWhatGoesWrongAndWhatIsHeld(t *testing.T) {
	for _, r := range page(t) {
		if r.wrong == "" || r.holds == "" {
			t.Errorf("%s says not what goes wrong, or not what is held", r.id)
		}
	}
}

func TestEachReportHasATestThatNamesIt(t *testing.T) {
	all := sources(t)
	for _, r := range page(t) {
		if len(r.tests) == 0 && r.differs == "" {
			t.Errorf("%s has no test and no reason why it has none", r.id)
		}
		for _, test := range r.tests {
			switch text, exists := all[test]; {
			case !exists:
				t.Errorf("%s: there is no %s", r.id, test)
			case !regexp.MustCompile(`\b` + r.id + `\b`).MatchString(text):
				t.Errorf("%s: %s does not name it", r.id, test)
			}
		}
	}
}

var (
	// ids behind "Field report", "field reports A01, A02 and", over the lines of a comment.
	cited = regexp.MustCompile(`[Ff]ield\s+(?://\s+)?reports?\s+(?://\s+)?` +
		`((?:[A-Z][0-9]{2}(?:,?\s+(?://\s+)?(?:and|to)?\s*)?)+)`)
	ids = regexp.MustCompile(`[A-Z][0-9]{2}`)
)

// A test that names a report belongs into its row, or the page tells less than there is.
func TestEachTestThatNamesAReportIsInItsRow(t *testing.T) {
	rows := map[string]report{}
	for _, r := range page(t) {
		rows[r.id] = r
	}
	all := sources(t)
	for _, test := range slices.SortedFunc(maps.Keys(all), byName) {
		for _, citation := range cited.FindAllStringSubmatch(all[test], -1) {
			for _, id := range ids.FindAllString(citation[1], -1) {
				switch row, exists := rows[id]; {
				case !exists:
					t.Errorf("%s names %s, which is no report", test, id)
				case !slices.Contains(row.tests, test):
					t.Errorf("%s names %s, and is not in its row", test, id)
				}
			}
		}
	}
}
