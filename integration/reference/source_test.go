package reference

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// field is one option.
type field struct {
	// of is the name of the struct, and name that of the field in Go.
	of, name string
	json     string
	// kind is what a value is, for people.
	kind string
	doc  string
}

// object is one struct.
type object struct {
	name   string
	doc    string
	fields []field
	// embedded are the names of the structs whose fields stand among its own.
	embedded []string
}

// source is what the reference is made from.
type source struct {
	objects map[string]*object // by directory and name
	// syntax has the comment of each function that reads a Caddyfile, by its
	// name or that of the type that it reads.
	syntax map[string]string
	// options are those that set a field: by struct and field.
	options map[string]string
}

func read(t *testing.T) *source {
	t.Helper()
	s := &source{objects: map[string]*object{}, syntax: map[string]string{}, options: map[string]string{}}
	for _, dir := range []string{"caddyfile", "module", "auth"} {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no files: %v", dir, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			s.add(dir, file)
		}
	}
	for name, spelling := range spellings {
		s.options[name] = spelling
	}
	return s
}

func (s *source) add(dir string, file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.IsExported() {
					if structure, ok := t.Type.(*ast.StructType); ok {
						s.objects[dir+"."+t.Name.Name] = objectOf(t, structure, d.Doc.Text())
					}
				}
			}
		case *ast.FuncDecl:
			if strings.Contains(d.Doc.Text(), "Syntax:") {
				s.syntax[placeOf(d)] = d.Doc.Text()
			}
			if dir == "caddyfile" {
				s.addOptions(d)
			}
		}
	}
}

func objectOf(spec *ast.TypeSpec, structure *ast.StructType, doc string) *object {
	o := &object{name: spec.Name.Name, doc: doc}
	for _, f := range structure.Fields.List {
		if len(f.Names) == 0 {
			o.embedded = append(o.embedded, last(f.Type))
			continue
		}
		tag := ""
		if f.Tag != nil {
			text, _ := strconv.Unquote(f.Tag.Value)
			tag, _, _ = strings.Cut(reflect.StructTag(text).Get("json"), ",")
		}
		for _, name := range f.Names {
			if name.IsExported() {
				o.fields = append(o.fields, field{of: o.name, name: name.Name, json: tag, kind: kindOf(f.Type, f.Doc.Text()), doc: f.Doc.Text()})
			}
		}
	}
	return o
}

// last is the last name in an expression.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return last(e.X)
	case *ast.ArrayType:
		return last(e.Elt)
	case *ast.UnaryExpr:
		return last(e.X)
	default:
		return ""
	}
}

// kindOf is a type in the words of people who write configs. Sizes are numbers
// whose comment says so.
func kindOf(e ast.Expr, doc string) string {
	switch e := e.(type) {
	case *ast.ArrayType:
		if of := kindOf(e.Elt, ""); of != "text" {
			return "list of " + of + "s"
		}
		return "list"
	case *ast.MapType:
		return "object"
	case *ast.StarExpr:
		return "object"
	}
	switch name := last(e); name {
	case "string":
		return "text"
	case "bool":
		return "true or false"
	case "Duration":
		return "duration"
	case "Time":
		return "time"
	case "RawMessage":
		return "module"
	case "int", "int64", "float64", "uint16":
		if strings.Contains(doc, "byte") || strings.Contains(doc, "MiB") || strings.Contains(doc, "KiB") {
			return "bytes"
		}
		return "number"
	default:
		return "object"
	}
}

// placeOf is the name of a function, or of the type that it reads.
func placeOf(f *ast.FuncDecl) string {
	if f.Name.Name == "UnmarshalCaddyfile" && f.Recv != nil {
		return last(f.Recv.List[0].Type)
	}
	return f.Name.Name
}

// addOptions finds which option sets which field: the names of a case, and the
// fields that are written in it.
func (s *source) addOptions(f *ast.FuncDecl) {
	ast.Inspect(f, func(n ast.Node) bool {
		clause, ok := n.(*ast.CaseClause)
		if !ok || len(clause.List) != 1 {
			return true
		}
		literal, ok := clause.List[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		option, _ := strconv.Unquote(literal.Value)
		for _, statement := range clause.Body {
			ast.Inspect(statement, func(n ast.Node) bool {
				if selector, ok := n.(*ast.SelectorExpr); ok && selector.Sel.IsExported() {
					if from, ok := selector.X.(*ast.Ident); ok && from.Name != "d" {
						s.options[placeOf(f)+"/"+selector.Sel.Name] = option
					}
				}
				return true
			})
		}
		return true
	})
}

// option is how a field is spelt in a Caddyfile, "" when it cannot be.
func (s *source) option(of section, f field) (string, bool) {
	if spelling, ok := s.options[of.grammar+"/"+f.name]; ok {
		return spelling, true
	}
	spelling, ok := s.options[f.of+"."+f.name]
	return spelling, ok
}

// names are those of all structs of a directory, in order.
func (s *source) names(dir string) []string {
	var names []string
	for name := range s.objects {
		if strings.HasPrefix(name, dir+".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
