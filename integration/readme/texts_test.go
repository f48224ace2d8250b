package readme

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

// Whoever meets a text of the gateway looks for it in the README. What an error
// says in front of the first semicolon or comma is enough to find it.
func TestEveryTextOfTheGatewayIsInTheREADME(t *testing.T) {
	table := part(t, read(t), "## Troubleshooting by exception text", "## For engineers")
	look := func(text string) {
		t.Helper()
		if text = strings.TrimSpace(text); text != "" && !strings.Contains(table, head(text)) {
			t.Errorf("%q is not in the README", head(text))
		}
	}
	seen := 0
	for c := cause.OK; c.String() != "invalid"; c++ {
		seen++
		look(cause.Failure{Cause: c, SandboxID: "…"}.Text())
	}
	if seen < 30 {
		t.Errorf("only %d causes were found", seen)
	}
	for _, file := range sources(t, "handlers") {
		for _, text := range messages(file) {
			seen++
			look(text)
		}
	}
	for _, file := range slices.Concat(sources(t, "auth/limit"), sources(t, "routing"), sources(t, "handlers/listing")) {
		for _, text := range told(file) {
			seen++
			look(text)
		}
	}
	if seen < 60 {
		t.Errorf("only %d texts were found", seen)
	}
}

// filled are texts that are put together, as the README has them.
var filled = strings.NewReplacer(
	"Too many %s: this", "Too many requests: this",
	"begin with %s are", "begin with e2b-gateway/ are",
)

// head is the part of a text that the README must have.
func head(text string) string {
	text = filled.Replace(text)
	if at := strings.IndexAny(text, ";,"); at > 0 {
		text = text[:at]
	}
	for _, verb := range []string{"%s", "%d"} {
		text = strings.ReplaceAll(text, verb, "…")
	}
	return text
}

// messages are the texts that a file of package handlers tells clients: the
// fields Message of failures, and what becomes one.
func messages(file *ast.File) (texts []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Message" {
				texts = append(texts, literals(n.Value)...)
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				// Errors that are only logged are not for clients.
				if i < len(n.Values) && (name.Name == "errTwoKeys" || name.Name == "errCreateBody" || name.Name == "errMetadata") {
					texts = append(texts, literals(n.Values[i])...)
				}
			}
		case *ast.FuncDecl:
			if refusesCreates[n.Name.Name] {
				ast.Inspect(n, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok && (called(call) == "New" || called(call) == "Errorf") {
						if text := literals(call); len(text) > 0 && !strings.HasSuffix(text[0], "%w") {
							texts = append(texts, text...)
						}
					}
					return true
				})
			}
		}
		return true
	})
	return texts
}

// refusesCreates are the functions whose errors a create is refused with.
var refusesCreates = map[string]bool{"translateCreate": true, "readMetadata": true, "refusal": true}

// told are the texts of limits, and of what is wrong with routing headers and with the
// query of a list.
func told(file *ast.File) (texts []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Text" {
				texts = append(texts, literals(n.Value)...)
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				for _, prefix := range []string{"ErrNoSandbox", "ErrManySandbox", "ErrInvalidSandbox", "ErrForbiddenPort", "ErrQuery", "ErrTwice", "ErrMetadata", "ErrState", "ErrLimit", "ErrToken"} {
					if i < len(n.Values) && strings.HasPrefix(name.Name, prefix) {
						texts = append(texts, literals(n.Values[i])...)
					}
				}
			}
		}
		return true
	})
	return texts
}
