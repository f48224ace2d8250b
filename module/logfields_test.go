package module

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/integration/document"
	"github.com/caddy-e2b/gateway/routing"
)

const logsPage = "../docs/logs.md"

// The marks of what is generated in docs/logs.md.
const tableBegins, tableEnds = "<!-- fields: made from module/logfields.go -->", "<!-- end of fields -->"

func TestEveryLogFieldIsDocumented(t *testing.T) {
	want := "\n| field | placeholder | |\n|---|---|---|\n"
	for _, f := range logFields {
		want += fmt.Sprintf("| `%s` | `{%s%s}` | %s |\n", f.name, placeholders, f.name, f.says)
	}
	document.Part(t, logsPage, tableBegins, tableEnds, want+"\n")
}

// The documentation of Handler is what Caddy's website shows.
func TestEveryPlaceholderIsInTheDocumentationOfTheHandler(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "handler.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var doc string
	ast.Inspect(file, func(n ast.Node) bool {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.TYPE && d.Specs[0].(*ast.TypeSpec).Name.Name == "Handler" {
			doc = d.Doc.Text()
		}
		return true
	})
	rows := 0
	for line := range strings.Lines(doc) {
		if strings.HasPrefix(line, "`{") {
			rows++
		}
	}
	if rows != len(logFields) {
		t.Errorf("it has %d placeholders of %d", rows, len(logFields))
	}
	for _, f := range logFields {
		if row := fmt.Sprintf("`{%s%s}` | %s\n", placeholders, f.name, f.says); !strings.Contains(doc, row) {
			t.Errorf("it lacks %s", row)
		}
	}
}

func TestAFieldAndItsPlaceholderSayTheSame(t *testing.T) {
	out := handlers.Outcome{
		Operation: routing.Operation{Plane: routing.DataPlane, Name: "health"}, SandboxID: "a", Port: 8080, Subject: "alice", Cluster: "c",
		Upstream: "10.0.0.1:80", Status: 204, End: cause.Drain, Lookup: routing.SourceStale, Trail: &handlers.Trail{RequestID: "r", TraceID: "t"},
	}
	enc := zapcore.NewMapObjectEncoder()
	if err := (*record)(&out).MarshalLogObject(enc); err != nil {
		t.Fatal(err)
	}
	for _, f := range logFields {
		got, ok := placeholder(&out, placeholders+f.name)
		switch {
		case !ok:
			t.Errorf("there is no placeholder for %s", f.name)
		case f.time != nil && (enc.Fields[f.name] != nil || got != ""):
			t.Errorf("%s: nobody took the time, and it is %v, %v", f.name, enc.Fields[f.name], got)
		case f.time == nil && (fmt.Sprint(got) != fmt.Sprint(enc.Fields[f.name]) || fmt.Sprint(got) == "" || fmt.Sprint(got) == "0"):
			t.Errorf("%s: field %v, placeholder %v", f.name, enc.Fields[f.name], got)
		}
	}
	for _, key := range []string{"http.e2b.", "http.e2b.nothing", "http.e2b", "e2b.end"} {
		if _, ok := placeholder(&out, key); ok {
			t.Errorf("%q is one of ours", key)
		}
	}
}

func TestAFloodOfOneFailureIsShortenedAndDrownsNoOther(t *testing.T) {
	var c complaints
	now := time.Unix(1, 0)
	written := 0
	for range 10_000 {
		if _, ok := c.admit(cause.RegistryUnavailable, now); ok {
			written++
		}
	}
	if written != complaintsEach {
		t.Errorf("%d lines in one interval", written)
	}
	if omitted, ok := c.admit(cause.SandboxGone, now); !ok || omitted != 0 {
		t.Errorf("another cause: %v, %d omitted", ok, omitted)
	}
	now = now.Add(complaintsPer)
	if omitted, ok := c.admit(cause.RegistryUnavailable, now); !ok || omitted != 10_000-complaintsEach {
		t.Errorf("the next interval: %v, %d omitted", ok, omitted)
	}
	if omitted, ok := c.admit(cause.RegistryUnavailable, now); !ok || omitted != 0 {
		t.Errorf("and after: %v, %d omitted", ok, omitted)
	}
	if _, ok := c.admit(cause.RegistryUnavailable, now.Add(-time.Hour)); !ok {
		t.Error("a clock that goes back ends the lines")
	}
}
