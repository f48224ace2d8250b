package fieldreports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sources are all tests of the repository with their text: the comment above a function
// and the function. What stands elsewhere in its file says nothing about it.
func sources(t *testing.T) map[test]string {
	t.Helper()
	found := map[test]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		return functions(path, filepath.ToSlash(dir), found)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// functions adds the tests of a file.
func functions(path, dir string, to map[test]string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, declaration := range parsed.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil {
			continue
		}
		if name := function.Name.Name; !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
			continue
		}
		begin := function.Pos()
		if function.Doc != nil {
			begin = function.Doc.Pos()
		}
		to[test{dir, function.Name.Name}] = string(text[files.Position(begin).Offset:files.Position(function.End()).Offset])
	}
	return nil
}
