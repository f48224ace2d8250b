package migration

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is docs/migration.md.
func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var fence = regexp.MustCompile("(?ms)^( *)```(\\w+)\n(.*?)^ *```")

// blocks are the pieces of code in a language.
func blocks(t *testing.T, language string) (all []string) {
	t.Helper()
	for _, found := range fence.FindAllStringSubmatch(page(t), -1) {
		if found[2] == language {
			all = append(all, strings.ReplaceAll("\n"+found[3], "\n"+found[1], "\n"))
		}
	}
	if len(all) == 0 {
		t.Fatalf("the page has no %s", language)
	}
	return all
}

// replaced are the words in code of the first column of a table.
func replaced(t *testing.T, begin string) (words []string) {
	t.Helper()
	_, rest, ok := strings.Cut(page(t), "\n"+begin)
	if !ok {
		t.Fatalf("the page has no table %q", begin)
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	for row := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, code := range regexp.MustCompile("`([a-zA-Z_]+)`").FindAllStringSubmatch(first, -1) {
			words = append(words, code[1])
		}
	}
	return words
}

func TestEveryLineOfTheOldFrontsIsInATable(t *testing.T) {
	for _, front := range []struct {
		language, table string
		word            *regexp.Regexp
	}{
		{"nginx", "| nginx | here |", regexp.MustCompile(`(?m)^\s*([a-z_]+) `)},
		{"yaml", "| Traefik | here |", regexp.MustCompile(`\b([a-zA-Z]+):(?:\s|$)`)},
	} {
		known := replaced(t, front.table)
		seen := 0
		for _, word := range front.word.FindAllStringSubmatch(blocks(t, front.language)[0], -1) {
			seen++
			if !slices.Contains(known, word[1]) && !named[word[1]] {
				t.Errorf("%s: %s is in no row", front.language, word[1])
			}
		}
		if seen < 15 {
			t.Errorf("%s: only %d words were found", front.language, seen)
		}
	}
}

// named are words that are names of whoever wrote the config, or nginx's
// default in a map.
var named = map[string]bool{
	"default": true,
	"http":    true, "list": true, "control": true, "data": true, "auth": true, "creates": true, "admin": true, "proxy": true,
}
