package doctor

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Print writes a report for a person.
func (r *Report) Print(to io.Writer) error {
	var b strings.Builder
	counts := map[Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
		fmt.Fprintf(&b, "%-8s %s\n         %s\n         %s\n         Why: %s\n         Do:  %s\n\n", f.Severity, f.ID, visible(f.Where), visible(f.Found), f.Why, f.Do)
	}
	for _, u := range r.Unchecked {
		fmt.Fprintf(&b, "not checked: %s: %s\n", visible(u.What), visible(u.Why))
	}
	fmt.Fprintf(&b, "%s, %s, %s; %d not checked\n", some(counts, Error), some(counts, Warning), some(counts, Note), len(r.Unchecked))
	_, err := io.WriteString(to, b.String())
	return err
}

// some is a number with its noun.
func some(counts map[Severity]int, of Severity) string {
	if counts[of] == 1 {
		return fmt.Sprintf("1 %s", of)
	}
	return fmt.Sprintf("%d %ss", counts[of], of)
}

// visible is text in one line that a terminal obeys nothing of. Some of what is found
// others have written: an answer of Redis, the names in a certificate.
func visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}
