package module

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// Commands are all commands of the gateway, in the order of docs/commands.md.
// Caddy adds its own: run, reload, validate and the rest.
func Commands() []caddycmd.Command { return slices.Clone(commands) }

var commands = []caddycmd.Command{
	doctorCommand,
	keysCommand,
	tokensCommand,
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

// write writes a value as JSON, or as print does.
func write(flags caddycmd.Flags, value any, print func(io.Writer) error) error {
	if flags.Bool("json") {
		return writeJSON(os.Stdout, value)
	}
	return print(os.Stdout)
}
