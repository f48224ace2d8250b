package readme

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	_ "github.com/caddy-e2b/gateway/module" // the stores and registries
)

// places says where in the README the options are that a function of the
// Caddyfile's grammar reads: between this text and the end of the table or
// paragraph that it begins.
var places = map[string][]string{
	"ParseGlobal":          {"| in `e2b { … }` | default"},
	"parseTokens":          {"| in `e2b { … }` | default"},
	"parseLimits":          {"| in `limits { … }`"},
	"parseLimit":           nil, // the names come from parseLimits
	"parseCache":           {"| in `cache { … }`"},
	"parseCluster":         {"| in `cluster <name> { … }`"},
	"parseTLS":             {"| in `cluster <name> { … }`"},
	"parseOption":          {"| in `registry redis { … }`", "`redis` and `http` also take"},
	"RedisConfig":          {"| in `registry redis { … }`"},
	"StaticConfig":         {"`registry static` is a table"},
	"parseSandbox":         {"`registry static` is a table"},
	"RedisKeysConfig":      {"| `keys …` |", "`redis` and `http` also take"},
	"HTTPKeysConfig":       {"| `keys …` |", "`redis` and `http` also take"},
	"StaticKeysConfig":     {"| in `key <digest> <subject> { … }`", "`keys static` is a table"},
	"parseKeyOption":       {"| in `key <digest> <subject> { … }`"},
	"ListenerConfig":       {"| in `e2b { … }` of `listener_wrappers`"},
	"ParseDirective":       {"`e2b [<matcher>] [control|data|health]`"},
	"ParseListenerWrapper": {"| in `e2b { … }` of `listener_wrappers`"},
}

// listing are the functions of the grammar that are given the names of the
// options, or the values, that there are.
var listing = []string{"unknown", "parseOption", "parseLimit", "choice"}

func TestEveryOptionIsInTheREADME(t *testing.T) {
	readme := read(t)
	seen := 0
	for _, file := range sources(t, "caddyfile") {
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			names := named(function)
			if len(names) == 0 {
				continue
			}
			at, ok := places[placeOf(function)]
			if !ok {
				t.Errorf("%s reads options: say in this test where the README has them", placeOf(function))
				continue
			}
			known := map[string]bool{}
			for _, begin := range at {
				_, rest, ok := strings.Cut(readme, "\n"+begin)
				if !ok {
					t.Errorf("the README has no %q", begin)
				}
				block, _, _ := strings.Cut(begin+rest, "\n\n")
				for word := range words(block) {
					known[word] = true
				}
			}
			for _, name := range names {
				seen++
				if !known[name] {
					t.Errorf("%s: %s is not in the README at %q", placeOf(function), name, at)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d options were found", seen)
	}
}

// placeOf is the name of a function, or of the type that it reads.
func placeOf(f *ast.FuncDecl) string {
	if f.Name.Name == "UnmarshalCaddyfile" && f.Recv != nil {
		if pointer, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
			if name, ok := pointer.X.(*ast.Ident); ok {
				return name.Name
			}
		}
	}
	return f.Name.Name
}

// named are the names in a function's calls of listing.
func named(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && slices.Contains(listing, called(call)) {
			for _, arg := range call.Args {
				names = append(names, literals(arg)...)
			}
		}
		return true
	})
	return names
}

func TestEveryStoreOfKeysAndEveryRegistryIsInTheREADME(t *testing.T) {
	options := part(t, read(t), "### The global option", "## Security")
	known := words(options)
	for _, namespace := range []string{e2bcaddyfile.KeysNamespace, e2bcaddyfile.RegistryNamespace} {
		modules := caddy.GetModules(namespace)
		if len(modules) < 3 {
			t.Errorf("%s has %d modules", namespace, len(modules))
		}
		for _, m := range modules {
			if !known[m.ID.Name()] {
				t.Errorf("%s is not in the README", m.ID)
			}
		}
	}
}
