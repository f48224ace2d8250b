package documented

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rooms are the packages that log.
var rooms = []string{"module", "routing", "auth", "handlers"}

// audited are the lines whose fields docs/admin.md has.
var audited = []string{"an operator has made a change", "an operator's change was refused"}

// Lines that only a rare fault brings forth are looked for in the source, because
// nobody can wait for them: each message, with the names of its fields. What requests
// and incidents write is looked for in what they have written, in
// integration/incidents.
func TestEveryLineOfTheLogIsDocumented(t *testing.T) {
	logs := page(t, "docs/logs.md")
	seen := 0
	for _, room := range rooms {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				message, fields, ok := line(call)
				if !ok {
					return true
				}
				seen++
				head, _, _ := strings.Cut(message, ": ")
				if len(head) < 20 { // "redis", "draining"
					head = message
				}
				row := rowWith(logs, head)
				if row == "" {
					t.Errorf("%s: docs/logs.md has no row for %q", path, head)
				}
				for _, field := range fields {
					if !strings.Contains(row, "`"+field+"`") && !slices.Contains(audited, head) {
						t.Errorf("%s: docs/logs.md has no field %s of %q", path, field, head)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 15 {
		t.Errorf("only %d lines were found", seen)
	}
}

// rowWith is the row of a table in which a text is in code, whole or the beginning
// of what the log has.
func rowWith(page, head string) string {
	for row := range strings.Lines(page) {
		cells := strings.Split(row, " | ")
		for _, code := range strings.Split(cells[0], "`") {
			if code = strings.TrimSpace(code); len(code) > 10 && (strings.HasPrefix(head, code) || strings.HasPrefix(code, head)) {
				return row
			}
		}
	}
	return ""
}

// line reads a call that writes to a log at a level: its message, as far as it is
// written out, and the names of its fields.
func line(call *ast.CallExpr) (message string, fields []string, _ bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 || !slices.Contains([]string{"Info", "Warn", "Error", "Debug"}, method.Sel.Name) {
		return "", nil, false
	}
	if message = text(call.Args[0]); message == "" {
		return "", nil, false
	}
	for i, arg := range call.Args[1:] {
		switch arg := arg.(type) {
		case *ast.CallExpr: // of zap
			of, ok := arg.Fun.(*ast.SelectorExpr)
			switch {
			case !ok:
			case of.Sel.Name == "Error":
				if from, ok := of.X.(*ast.Ident); ok && from.Name == "zap" {
					fields = append(fields, "error")
				}
			case len(arg.Args) > 0 && text(arg.Args[0]) != "":
				fields = append(fields, text(arg.Args[0]))
			}
		case *ast.BasicLit: // of slog
			if i%2 == 0 {
				fields = append(fields, text(arg))
			}
		}
	}
	return message, fields, true
}

// text is a literal, or several that are added.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, _ := strconv.Unquote(e.Value)
			return s
		}
	case *ast.BinaryExpr:
		return text(e.X) + text(e.Y)
	}
	return ""
}
