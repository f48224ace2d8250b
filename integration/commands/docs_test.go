package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-e2b/gateway/integration/document"
	"github.com/caddy-e2b/gateway/module"
)

const docs = "../../docs/commands.md"

// tree is a command as cobra has it.
func tree(c caddycmd.Command) *cobra.Command {
	cmd := &cobra.Command{Use: c.Name + " " + c.Usage, Short: c.Short, Long: c.Long}
	c.CobraFunc(cmd)
	return cmd
}

// page is docs/commands.md.
func page() string {
	var b strings.Builder
	b.WriteString("# Commands\n\n`e2b-gateway` has all commands of Caddy (`run`, `reload`, `validate`, `adapt`, `fmt`, …: `e2b-gateway help`), and these. A Caddy built with\n" +
		"xcaddy has them, too. `e2b-gateway completion` prints completion for shells, and `e2b-gateway manpage --directory DIR` writes man pages,\n" +
		"with these among them.\n\nErrors go to standard error, as lines of Caddy's log. The exit code is 0 for an answer, or a yes; 1 for a no, or a mistake; and 2 when\n" +
		"nobody can say, unless a command says otherwise.\n\n" +
		"This page is written by `go test ./integration/commands -run Documented -update`.\n")
	for _, c := range module.Commands() {
		describe(&b, tree(c), "e2b-gateway ", "##")
	}
	return b.String()
}

func describe(b *strings.Builder, cmd *cobra.Command, before, heading string) {
	fmt.Fprintf(b, "\n%s %s%s\n\n%s.\n", heading, strings.TrimPrefix(before, "e2b-gateway "), cmd.Name(), cmd.Short)
	if cmd.Runnable() {
		fmt.Fprintf(b, "\n```\n%s%s\n```\n", before, cmd.Use)
	}
	if cmd.Long != "" {
		b.WriteString("\n")
		code := false
		for line := range strings.Lines(cmd.Long + "\n") {
			text, indented := strings.CutPrefix(line, "\t")
			if indented != code {
				b.WriteString("```\n")
				code = indented
			}
			b.WriteString(text)
		}
		if code {
			b.WriteString("```\n")
		}
	}
	if flags := cmd.LocalFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(b, "\n```\n%s```\n", flags)
	}
	for _, sub := range cmd.Commands() {
		describe(b, sub, before+cmd.Name()+" ", heading+"#")
	}
}

func TestEveryCommandAndFlagIsDocumented(t *testing.T) {
	document.Whole(t, docs, page())
}

// Whatever this module registers with Caddy is in its table, and so in the docs.
func TestEveryRegisteredCommandIsInTheTable(t *testing.T) {
	var listed []string
	for _, c := range module.Commands() {
		listed = append(listed, c.Name)
	}
	for name, c := range caddycmd.Commands() {
		from := c.CobraFunc
		if from == nil {
			continue // registered as Caddy's own standard commands are
		}
		ours := strings.HasPrefix(runtime.FuncForPC(reflect.ValueOf(from).Pointer()).Name(), "github.com/caddy-e2b/gateway/")
		if ours != slices.Contains(listed, name) {
			t.Errorf("command %s: this module's %v, in the table %v", name, ours, !ours)
		}
	}
}

// runnable are the commands that do something, with their parents' names.
func runnable(cmd *cobra.Command, before []string) (all [][]string) {
	path := append(slices.Clone(before), cmd.Name())
	if cmd.Runnable() {
		all = append(all, path)
	}
	for _, sub := range cmd.Commands() {
		all = append(all, runnable(sub, path)...)
	}
	return all
}

func everyCommand() (all [][]string) {
	for _, c := range module.Commands() {
		all = append(all, runnable(tree(c), nil)...)
	}
	return all
}

func TestEveryCommandWritesJSONOnRequest(t *testing.T) {
	for _, c := range module.Commands() {
		var look func(cmd *cobra.Command, path string)
		look = func(cmd *cobra.Command, path string) {
			if cmd.Runnable() && cmd.Flags().Lookup("json") == nil {
				t.Errorf("%s has no --json", path)
			}
			for _, sub := range cmd.Commands() {
				look(sub, path+" "+sub.Name())
			}
		}
		look(tree(c), c.Name)
	}
}

// Caddy's own "completion" and "manpage" know the commands of the binary.
func TestShellsAndManPagesKnowTheCommands(t *testing.T) {
	for _, path := range everyCommand() {
		parent, name := path[:len(path)-1], path[len(path)-1]
		r := run(t, "", nil, slices.Concat([]string{"__complete"}, parent, []string{name[:len(name)-1]})...)
		if !strings.HasPrefix(r.out, name+"\t") && !strings.Contains(r.out, "\n"+name+"\t") {
			t.Errorf("%s is not completed: %+v", strings.Join(path, " "), r)
		}
	}
	if r := run(t, "", nil, "completion", "bash"); r.code != 0 || !strings.Contains(r.out, "__start_e2b-gateway") {
		t.Errorf("completion: %d %.200s", r.code, r.out)
	}
	dir := t.TempDir()
	if r := run(t, "", nil, "manpage", "--directory", dir); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	for _, path := range everyCommand() {
		page, err := os.ReadFile(filepath.Join(dir, "e2b-gateway-"+strings.Join(path, "-")+".8"))
		if err != nil || !strings.Contains(string(page), `\-\-json`) && !strings.Contains(string(page), "--json") {
			t.Errorf("%s: %v", strings.Join(path, " "), err)
		}
	}
}
