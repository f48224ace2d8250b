package documented

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	linkForm    = regexp.MustCompile(`\[[^\]\n]*\]\(([^)\s]+)\)`)
	headingForm = regexp.MustCompile(`(?m)^#+ (.*)$`)
	codeForm    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// Links between pages, and to files and headings, lead to something.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	more, _ := filepath.Glob(filepath.Join(root, "deploy", "*", "*.md"))
	pages = slices.Concat(pages, more, []string{filepath.Join(root, "README.md"), filepath.Join(root, "SECURITY.md")})
	seen := 0
	for _, file := range pages {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range linkForm.FindAllStringSubmatch(codeForm.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			seen++
			path, anchor, _ := strings.Cut(link[1], "#")
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads to no file", file, link[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(t, target), anchor) {
				t.Errorf("%s: %s leads to no heading", file, link[1])
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d links were found", seen)
	}
}

// Whoever begins at the README finds every page.
func TestTheREADMELeadsToEveryPage(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	readme := page(t, "README.md")
	for _, file := range pages {
		if !strings.Contains(readme, "](docs/"+filepath.Base(file)+")") {
			t.Errorf("the README has no link to %s", filepath.Base(file))
		}
	}
}

// anchors are the headings of a page, as GitHub makes links of them.
func anchors(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, heading := range headingForm.FindAllStringSubmatch(string(text), -1) {
		lower := strings.ToLower(strings.ReplaceAll(heading[1], " ", "-"))
		all = append(all, regexp.MustCompile(`[^\p{L}\p{N}_-]`).ReplaceAllString(lower, ""))
	}
	return all
}
