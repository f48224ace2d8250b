package routing

import (
	"regexp"
	"strings"
	"testing"
)

func TestValidSandboxID(t *testing.T) {
	valid := []string{
		"5b1f0c2e9d0a4f7c8b6a1e2d3c4f5a6b",                  // uuid4 hex
		"sbx-1", "a", "0", "my_box.v2", "with-many-hyphens", // Field report E05
		"UPPER", strings.Repeat("a", MaxSandboxIDLength),
	}
	for _, id := range valid {
		if !ValidSandboxID(id) {
			t.Errorf("%.40q is refused", id)
		}
	}
	// Field report M12.
	invalid := []string{
		"", "-a", ".a", "_a", "..", ".", "*", "a:b", "../x", "x\r\nDEL", "x%0d%0aDEL", "{x}", "a/b", "a b", "a\x00",
		"a?b", "a#b", "a\\b", "ä", "\xff\xfe", "a,b", strings.Repeat("a", MaxSandboxIDLength+1),
	}
	for _, id := range invalid {
		if ValidSandboxID(id) {
			t.Errorf("%.40q is allowed", id)
		}
	}
}

func FuzzValidSandboxID(f *testing.F) {
	for _, id := range []string{"", "sbx-1", "-a", "a:b", "ä", "a\n"} {
		f.Add(id)
	}
	form := regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9_.-]{0,252}\z`)
	f.Fuzz(func(t *testing.T, id string) {
		if got, want := ValidSandboxID(id), form.MatchString(id); got != want {
			t.Errorf("ValidSandboxID(%q) = %v, the documented form says %v", id, got, want)
		}
	})
}
