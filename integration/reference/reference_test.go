package reference

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/integration/document"
	_ "github.com/caddy-e2b/gateway/module"
)

func TestTheReferenceSaysWhatTheCommentsSay(t *testing.T) {
	document.Whole(t, filepath.Join(root, "docs", "configuration.md"), read(t).page())
}

// Who adds an option says what it does and what holds without it.
func TestEveryOptionHasACommentADefaultAndAName(t *testing.T) {
	s := read(t)
	seen := 0
	for _, section := range sections {
		o := s.objects[section.of]
		if o == nil {
			t.Fatalf("there is no struct %s", section.of)
		}
		if o.doc == "" {
			t.Errorf("%s has no comment", o.name)
		}
		if section.grammar != "" && s.syntax[section.grammar] == "" {
			t.Errorf("%s has no comment with a syntax", section.grammar)
		}
		for _, f := range o.fields {
			if f.json == "" {
				continue
			}
			seen++
			text, preset := defaultOf(f.doc)
			if text == "" {
				t.Errorf("%s.%s has no comment", f.of, f.name)
			}
			if preset == "" {
				t.Errorf("%s.%s says no default: a sentence that begins with Default: or Required", f.of, f.name)
			}
			if _, ok := s.option(section, f); !ok {
				t.Errorf("%s.%s: say in spellings how a Caddyfile sets it", f.of, f.name)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d options were found", seen)
	}
}

func TestEveryConfigStructAndEverySyntaxHasASection(t *testing.T) {
	s := read(t)
	var structs, grammars []string
	for _, section := range sections {
		structs = append(structs, section.of)
		grammars = append(grammars, section.grammar)
	}
	for _, name := range s.names("caddyfile") {
		if !slices.Contains(structs, name) {
			t.Errorf("%s has no section", name)
		}
	}
	within := map[string]bool{"parseKeyOption": true} // a part of the syntax of another
	for name := range s.syntax {
		if !slices.Contains(grammars, name) && !within[name] {
			t.Errorf("the syntax of %s has no section", name)
		}
	}
}

// The modules of this program are asked, and not its sources: whatever they take
// from a JSON config stands in the reference.
func TestWhatTheModulesTakeIsInTheReference(t *testing.T) {
	s := read(t)
	known := map[string]bool{}
	for _, section := range sections {
		for _, f := range s.objects[section.of].fields {
			known[f.of+"."+f.json] = true
		}
	}
	page := s.page()
	ours := 0
	for _, id := range caddy.Modules() {
		info, err := caddy.GetModule(id)
		if err != nil {
			t.Fatal(err)
		}
		of := reflect.TypeOf(info.New())
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if !strings.HasPrefix(of.PkgPath(), "github.com/caddy-e2b/gateway") {
			continue
		}
		ours++
		if !strings.Contains(page, id) && !unconfigured[id] {
			t.Errorf("module %s is not in the reference", id)
		}
		for _, name := range taken(of, map[reflect.Type]bool{}) {
			if !known[name] {
				t.Errorf("module %s takes %s, which is not in the reference", id, name)
			}
		}
	}
	if ours < 14 {
		t.Errorf("only %d modules of ours were found", ours)
	}
}

// unconfigured are the modules that nobody names in a config.
var unconfigured = map[string]bool{"e2b": true, "admin.api.e2b": true}

// taken are the fields, with their structs, that a type of ours takes from JSON,
// and those of the types in it.
func taken(of reflect.Type, seen map[reflect.Type]bool) (names []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || seen[of] || !strings.HasPrefix(of.PkgPath(), "github.com/caddy-e2b/gateway") {
		return nil
	}
	seen[of] = true
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if !f.Anonymous {
			names = append(names, of.Name()+"."+name)
		}
		names = append(names, taken(f.Type, seen)...)
	}
	return names
}
