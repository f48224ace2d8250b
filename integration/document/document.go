// Package document holds the pages of docs/ to what they are made of: a table in code,
// comments, what a test has seen. With -update a test writes its page, or its part of one,
// and without it fails where the page has something else.
//
// It knows nothing of what pages say.
package document

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pages and the testdata that are out of date")

// Updating reports the flag -update.
func Updating() bool { return *update }

// Whole holds a whole file to its content.
func Whole(t testing.TB, file, content string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !Updating() {
		t.Fatal(err)
	}
	hold(t, file, string(text), content)
}

// Part holds what stands in a file between the lines begin and end to its content, which
// ends with a newline. It returns the whole page as it must be.
func Part(t testing.TB, file, begin, end, content string) (page string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin+"\n")
	_, after, ended := strings.Cut(rest, end+"\n")
	if !found || !ended {
		t.Fatalf("%s has no line %q with %q behind it", file, begin, end)
	}
	page = before + begin + "\n" + content + end + "\n" + after
	hold(t, file, string(text), page)
	return page
}

func hold(t testing.TB, file, is, want string) {
	t.Helper()
	switch {
	case is == want:
	case !Updating():
		t.Errorf("%s is out of date: run %s with -update", file, t.Name())
	default:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
