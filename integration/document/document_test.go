package document

import (
	"os"
	"path/filepath"
	"testing"
)

// told notes what a test is told, and stops for nothing.
type told struct {
	testing.TB
	failed bool
}

func (t *told) Helper()               {}
func (t *told) Name() string          { return "TestOfAPage" }
func (t *told) Errorf(string, ...any) { t.failed = true }

func TestAPartOfAPageIsHeldAndWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(content string) bool {
		own := &told{TB: t}
		if page := Part(own, file, "<!-- a -->", "<!-- /a -->", content); page != "before\n<!-- a -->\n"+content+"<!-- /a -->\nafter\n" {
			t.Errorf("%q", page)
		}
		return !own.failed
	}
	if !check("old\n") || check("new\n") || !check("old\n") {
		t.Error("the page is taken for another, or was written")
	}
	defer func(was bool) { *update = was }(*update)
	*update = true
	check("new\n")
	*update = false
	if !check("new\n") {
		t.Error("the page was not written")
	}
}
