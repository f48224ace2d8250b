package reference

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tables are those of the README with defaults, by how their heads begin, and
// the structs that have their options.
var tables = map[string][]string{
	"| in `e2b { … }` | default":                          {"Config"},
	"| in `cluster <name> { … }` | default":               {"ClusterConfig"},
	"| in `registry redis { … }` | default":               {"RedisConfig", "RedisConnection"},
	"| in `key <digest> <subject> { … }` | default":       {"Record", "Tenant"},
	"| in `limits { … }` | default":                       {"LimitsConfig"},
	"| in `cache { … }` | default":                        {"CacheConfig"},
	"| in `e2b { … }` of `listener_wrappers` | default |": {"ListenerConfig"},
}

var (
	row   = regexp.MustCompile("(?m)^\\| `([a-z_]+)[^|]*` \\| `([^`|]+)`")
	first = regexp.MustCompile(`^"?([\w:.-]+(?: [KM]iB)?)`)
)

// Two pages that name a default name the same one.
func TestTheREADMEAndTheReferenceNameTheSameDefaults(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := strings.ReplaceAll(string(text), `\|`, "/")
	s := read(t)
	seen := 0
	for begin, structs := range tables {
		_, rest, ok := strings.Cut(readme, "\n"+begin)
		if !ok {
			t.Errorf("the README has no %q", begin)
		}
		table, _, _ := strings.Cut(rest, "\n\n")
		for _, found := range row.FindAllStringSubmatch(table, -1) {
			preset, ok := s.preset(structs, found[1])
			if !ok {
				t.Errorf("the reference has no %s in %v", found[1], structs)
				continue
			}
			seen++
			if want := first.FindStringSubmatch(preset); want == nil || strings.ReplaceAll(want[1], " ", "") != strings.Fields(found[2])[0] {
				t.Errorf("%s: the README says %q, the reference %q", found[1], found[2], preset)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d defaults were compared", seen)
	}
}

// preset is the default of an option of a Caddyfile that one of the structs has.
func (s *source) preset(structs []string, option string) (string, bool) {
	for _, section := range sections {
		for _, of := range structs {
			if !strings.HasSuffix(section.of, "."+of) {
				continue
			}
			for _, f := range s.objects[section.of].fields {
				if spelling, _ := s.option(section, f); strings.Fields(spelling + " -")[0] == option {
					_, preset := defaultOf(f.doc)
					return preset, true
				}
			}
		}
	}
	return "", false
}
