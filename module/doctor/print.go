package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Print writes a report for a person.
func (r *Report) Print(to io.Writer) error {
	var b strings.Builder
	counts := map[Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
		fmt.Fprintf(&b, "%-8s %s\n         %s\n         %s\n         Why: %s\n         Do:  %s\n\n", f.Severity, f.ID, f.Where, f.Found, f.Why, f.Do)
	}
	for _, u := range r.Unchecked {
		fmt.Fprintf(&b, "not checked: %s: %s\n", u.What, u.Why)
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
