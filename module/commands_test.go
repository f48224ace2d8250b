package module

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
)

func TestAnEmptyCellIsADash(t *testing.T) {
	var b bytes.Buffer
	if err := writeTable(&b, []string{"A", "B"}, []string{"", "x y"}); err != nil || b.String() != "A  B\n-  x y\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func FuzzNothingForATerminalMovesItsCursor(f *testing.F) {
	f.Add("\x1b[2J")
	f.Add("a\tb\u202e")
	f.Add(`"`)
	f.Fuzz(func(t *testing.T, s string) {
		if out := shown(s); out == "" || strings.ContainsFunc(out, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsGraphic(r) }) {
			t.Errorf("%q is shown as %q", s, out)
		}
	})
}
