package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// part is what stands between two headings.
func part(t *testing.T, readme, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(readme, "\n"+from+"\n")
	text, _, ok2 := strings.Cut(rest, "\n"+to+"\n")
	if !ok || !ok2 {
		t.Fatalf("the README has no part from %q to %q", from, to)
	}
	return text
}

// sources are the parsed files of a package, without its tests.
func sources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no files: %v", dir, err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// literals are the texts in a piece of code.
func literals(n ast.Node) (texts []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// called is the name of the function in a call, without what it belongs to.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	default:
		return ""
	}
}

var (
	span  = regexp.MustCompile("`[^`\n]+`")
	fence = regexp.MustCompile("(?s)```(\\w*)\n(.*?)```")
)

// words are those of what is marked as code.
func words(text string) map[string]bool {
	all := map[string]bool{}
	for _, code := range span.FindAllString(text, -1) {
		for _, word := range regexp.MustCompile(`[A-Za-z0-9_]+`).FindAllString(code, -1) {
			all[word] = true
		}
	}
	return all
}
