package documented

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// has reports whether a page has a word, in code.
func has(page, word string) bool {
	return regexp.MustCompile("`[^`\n]*" + `(?:^|[^\w-])?` + regexp.QuoteMeta(word) + `(?:[^\w-][^` + "`" + `\n]*)?` + "`").MatchString(page)
}

// part is what a page says under a heading, up to the next one.
func part(page, heading string) (string, bool) {
	_, rest, ok := strings.Cut(page, "\n"+heading+"\n")
	if !ok {
		return "", false
	}
	text, _, _ := strings.Cut(rest, "\n#")
	return text, true
}
