package supply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/licensecheck"

	"github.com/caddy-e2b/gateway/integration/document"
)

const (
	binary = "github.com/caddy-e2b/gateway/cmd/e2b-gateway"
	own    = "github.com/caddy-e2b/gateway"
)

// allowed are the licences, as SPDX names them, of what may be linked into a
// program under Apache-2.0 and given away as a binary with the texts of its
// licences. MPL-2.0 asks for the sources of its own files, which are published
// and unchanged here. None of the GPL's family is among them.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense"}

// excused are licences that a module's file states for packages of it which are
// not linked.
var excused = map[string]struct{ licence, covers string }{
	// Of a font.
	"github.com/alecthomas/chroma/v2": {"OFL-1.1", "github.com/alecthomas/chroma/v2/formatters/svg"},
}

// licenceFile is how texts of licences are called.
var licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)([-.].*)?$`)

// component is a module that is linked into the binary.
type component struct {
	path, version string
	packages      []string          // those that are linked
	files         map[string]string // the texts of its licences, by their path in the module
}

// linked are the modules that have a package in the binary for Linux, by path.
func linked(t *testing.T) []*component {
	t.Helper()
	cmd := exec.Command("go", "list", "-tags="+tags, "-deps", "-json=Dir,ImportPath,Module,Standard", binary)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*component{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir, ImportPath string
			Standard        bool
			Module          *struct{ Path, Version, Dir string }
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Standard || p.Module.Path == own {
			continue
		}
		c, ok := found[p.Module.Path]
		if !ok {
			c = &component{path: p.Module.Path, version: p.Module.Version, files: map[string]string{}}
			found[c.path] = c
		}
		c.packages = append(c.packages, p.ImportPath)
		// A package may have come from elsewhere, with a licence of its own beside it.
		for dir := p.Dir; strings.HasPrefix(dir, p.Module.Dir); dir = filepath.Dir(dir) {
			c.read(t, p.Module.Dir, dir)
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *component) int { return strings.Compare(a.path, b.path) })
}

// read adds the texts in a directory of the module.
func (c *component) read(t *testing.T, module, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(module, filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		c.files[name] = string(text)
	}
}

// licences are what a text is, as SPDX names them, or none for a text that is
// mostly something else.
func licences(text string) (ids []string) {
	cover := licensecheck.Scan([]byte(text))
	const most = 60 // percent of the words; the rest is copyright lines and lists of who wrote what
	if cover.Percent < most {
		return nil
	}
	for _, m := range cover.Match {
		if !m.IsURL {
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// judged are the licences of a component, and what is wrong with them.
func judged(c *component) (ids []string, wrong error) {
	if len(c.files) == 0 {
		return nil, fmt.Errorf("%s has no file with a licence", c.path)
	}
	for name, text := range c.files {
		of := licences(text)
		if len(of) == 0 {
			return nil, fmt.Errorf("%s: nobody knows the licence in %s", c.path, name)
		}
		for _, id := range of {
			if e := excused[c.path]; e.licence == id && !slices.Contains(c.packages, e.covers) {
				continue
			}
			if !slices.Contains(allowed, id) {
				return nil, fmt.Errorf("%s: %s is %s, which is not allowed", c.path, name, id)
			}
		}
		ids = append(ids, of...)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func TestTheLicenceOfEverythingLinkedIsKnownAllowedAndListed(t *testing.T) {
	var b strings.Builder
	all := linked(t)
	const few = 50 // there are some 150: fewer means that go list was misread
	if len(all) < few {
		t.Fatalf("only %d modules are linked", len(all))
	}
	count := map[string]int{}
	b.WriteString("\n| module | version | licence |\n|---|---|---|\n| Go's standard library | | BSD-3-Clause |\n")
	for _, c := range all {
		ids, err := judged(c)
		if err != nil {
			t.Error(err)
		}
		for _, id := range ids {
			count[id]++
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.path, c.version, strings.Join(ids, ", "))
	}
	fmt.Fprintf(&b, "\n%d modules:", len(all))
	for i, id := range slices.Sorted(maps.Keys(count)) {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d %s", count[id], id)
	}
	b.WriteString(".\n\n")
	document.Part(t, "../../docs/licences.md", "<!-- made by go test ./integration/supply -update -->", "<!-- end -->", b.String())
}

func TestALicenceThatIsUnknownOrNotAllowedIsRefused(t *testing.T) {
	mit, err := os.ReadFile("testdata/MIT")
	if err != nil {
		t.Fatal(err)
	}
	lgpl, err := os.ReadFile("testdata/LGPL-3.0")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files map[string]string
		wrong bool
	}{
		"allowed":               {map[string]string{"LICENSE": string(mit)}, false},
		"none":                  {nil, true},
		"unknown":               {map[string]string{"LICENSE": "Ask the author before you use it."}, true},
		"not allowed":           {map[string]string{"LICENSE": string(lgpl)}, true},
		"not allowed in a part": {map[string]string{"LICENSE": string(mit), "part/LICENSE": string(lgpl)}, true},
	} {
		if _, err := judged(&component{path: name, files: c.files}); (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
