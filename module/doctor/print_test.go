package doctor

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
)

// What a Redis, a ROCK or a certificate says is shown, and neither obeyed by the
// terminal nor taken for a finding of its own.
func FuzzAReportMovesNoCursor(f *testing.F) {
	f.Add("WRONGPASS \x1b[2J\x1b]0;all is well\a")
	f.Add("a\nerror    redis-login")
	f.Add("\u009b2J\u202e\xff")
	f.Fuzz(func(t *testing.T, said string) {
		var b bytes.Buffer
		r := Report{Findings: []Finding{{ID: "x", Severity: Error, Where: said, Found: said}}, Unchecked: []Unchecked{{What: said, Why: said}}}
		if err := r.Print(&b); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != 8 {
			t.Errorf("%d lines of %q:\n%s", len(lines), said, b.String())
		}
		for _, line := range lines {
			if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q", line)
			}
		}
	})
}
