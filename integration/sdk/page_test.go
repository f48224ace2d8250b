package sdk

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/document"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// suites are the tests of this package that the compatibility page tells of:
// each runs with every SDK over each of its transports.
var suites = []struct {
	test   string
	what   string
	over   []transport
	checks []string
}{
	{"TestWholeLifeOfASandboxOnROCK", "a sandbox from its making to its end, on ROCK's own commands and files", transports, lifeChecks},
	{"TestWholeLifeOfASandboxOnEnvd", "the same and what only envd can, with envd in the sandbox", transports, slices.Concat(lifeChecks, envdChecks)},
	{"TestOutputArrivesWhileTheCommandGoesOn", "output arrives while the command goes on", transports, liveChecks},
	{"TestCallsOnASandboxThatIsGoneRaiseTheRightClass", "after its end every call raises the SDK's own class", transports, goneChecks},
	{"TestSilentCommandSurvives", "a command that says nothing for three minutes", silentTransports, silentChecks},
	{"TestASandboxIsPausedAndResumedAcrossProcesses", "one process makes a sandbox, another connects, pauses, resumes and ends it; a create that asks for what nobody can give is refused by name", []transport{cleartextH1},
		slices.Concat(pausingChecks["make"], pausingChecks["use"])},
}

const (
	programsBegin = "<!-- programs: written by go test ./integration/sdk -run TestTheCompatibilityPage -update -->"
	programsEnd   = "<!-- end of programs -->"
)

func TestTheCompatibilityPageNamesEveryProgramAndSDK(t *testing.T) {
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	page := document.Part(t, filepath.Join(root, "docs", "compatibility.md"), programsBegin, programsEnd, programs())
	for _, name := range testsOfSDKs(t) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("%s runs SDKs and is not on the page", name)
		}
	}
}

// programs is the table of the suites.
func programs() string {
	var names []string
	for _, c := range client.All {
		names = append(names, "`"+c.Name+"`")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "SDKs: %s. Transports: `h1` without TLS, `tls-h1` and `tls-h2` with HTTP/1.1 and HTTP/2 over TLS.\n\n", strings.Join(names, ", "))
	b.WriteString("| test | what | transports | checks |\n|---|---|---|---|\n")
	for _, s := range suites {
		var over []string
		for _, t := range s.over {
			over = append(over, "`"+string(t)+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.test, s.what, strings.Join(over, ", "), strings.Join(s.checks, ", "))
	}
	return b.String()
}

// testsOfSDKs are the tests of this package that start programs.
func testsOfSDKs(t *testing.T) (names []string) {
	paths, err := filepath.Glob("*_test.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if by, ok := call.Fun.(*ast.Ident); ok && (by.Name == "start" || by.Name == "everyCell") && !slices.Contains(names, f.Name.Name) {
						names = append(names, f.Name.Name)
					}
				}
				return true
			})
		}
	}
	return names
}
