package module

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// Commands are all commands of the gateway, in the order of docs/commands.md.
// Caddy adds its own: run, reload, validate and the rest.
func Commands() []caddycmd.Command { return slices.Clone(commands) }

var commands = []caddycmd.Command{
	doctorCommand,
	explainCommand,
	routesCommand,
	streamsCommand,
	drainCommand,
	keysCommand,
	tokensCommand,
	versionCommand,
}

// cannotSay is the exit code of commands that have no answer: nobody could be asked,
// or nobody knows.
const cannotSay = 2

// said is the result of a command that had an answer: 0 for yes, and 1 for no, which
// takes an error.
func said(yes bool, no error) (int, error) {
	if yes {
		return 0, nil
	}
	return 1, no
}

// configFlags are the flags of commands that read a config.
func configFlags(cmd *cobra.Command) {
	cmd.Flags().StringP("config", "c", "", "the config (default: the Caddyfile in this directory)")
	cmd.Flags().StringP("adapter", "a", "", "the adapter of the config, when it is no Caddyfile and no JSON")
}

func jsonFlag(cmd *cobra.Command) { cmd.Flags().Bool("json", false, "write JSON") }

// writeTable writes rows in columns, the first of them being the headings.
func writeTable(to io.Writer, rows ...[]string) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = shown(cell)
		}
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// shown is text for a terminal. What others have written may hold what a terminal
// would obey.
func shown(s string) string {
	if s == "" {
		return "-"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.QuoteToGraphic(s)
	}
	return s
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 1, 64) + "s" }

// write writes a value as JSON, or as print does.
func write(flags caddycmd.Flags, value any, print func(io.Writer) error) error {
	if flags.Bool("json") {
		return writeJSON(os.Stdout, value)
	}
	return print(os.Stdout)
}

// argument is the one argument of a command, which says what it is when it is
// missing.
func argument(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return errors.New("it takes one argument: " + what)
		}
		return nil
	}
}

// withArguments runs a command of Caddy's that is given its arguments.
func withArguments(run func(caddycmd.Flags, []string) (int, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return caddycmd.WrapCommandFuncForCobra(func(flags caddycmd.Flags) (int, error) { return run(flags, args) })(cmd, args)
	}
}
