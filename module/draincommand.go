package module

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-e2b/gateway/handlers"
)

// drainCommand is the command "drain".
var drainCommand = caddycmd.Command{
	Name:  "drain",
	Usage: "list|sandbox|cluster",
	Short: "Takes sandboxes and clusters out of service in a running gateway",
	Long: `Takes a sandbox or a cluster out of service, and into service again, in a running
gateway at its admin endpoint. A drain outlives reloads and ends with the process;
every gateway is told for itself.`,
	CobraFunc: func(cmd *cobra.Command) {
		cmd.AddCommand(drainList(), drainSandbox(), drainCluster())
	},
}

func drainList() *cobra.Command {
	return asksGateway(&cobra.Command{
		Use:   "list [--json]",
		Short: "Lists what is out of service",
		Args:  cobra.NoArgs,
		RunE:  caddycmd.WrapCommandFuncForCobra(listDrains),
	})
}

func drainSandbox() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox <id> [--undo] [--json]",
		Short: "Takes a sandbox out of service",
		Long: `Ends the streams of a sandbox in their protocol, and refuses new calls to it. The
sandbox runs on, and create, info, timeout and kill are served.`,
		Args: argument("the id of a sandbox"),
		RunE: withArguments(func(flags caddycmd.Flags, args []string) (int, error) {
			return changeDrain(flags, "/e2b/drains/sandboxes/"+url.PathEscape(args[0]), nil)
		}),
	}
	undoFlag(cmd)
	return asksGateway(cmd)
}

func drainCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster <name> [--scope creates|all] [--undo] [--json]",
		Short: "Takes a cluster out of service",
		Long: `Makes no new sandboxes in a cluster; others get them. With --scope all the streams
of its sandboxes are ended in their protocol, too, and new calls to them refused.`,
		Args: argument("the name of a cluster"),
		RunE: withArguments(func(flags caddycmd.Flags, args []string) (int, error) {
			return changeDrain(flags, "/e2b/drains/clusters/"+url.PathEscape(args[0]), url.Values{"scope": {flags.String("scope")}})
		}),
	}
	cmd.Flags().String("scope", string(handlers.DrainCreates), "creates: no new sandboxes; all: no calls either")
	undoFlag(cmd)
	return asksGateway(cmd)
}

func undoFlag(cmd *cobra.Command) { cmd.Flags().Bool("undo", false, "take it into service again") }

func changeDrain(flags caddycmd.Flags, path string, query url.Values) (int, error) {
	if flags.Bool("undo") {
		var restored Restored
		if err := ask(flags, http.MethodDelete, path, nil, nil, &restored); err != nil {
			return cannotSay, err
		}
		return 0, write(flags, restored, func(to io.Writer) error {
			_, err := fmt.Fprintln(to, "in service again")
			return err
		})
	}
	var drained Drained
	if err := ask(flags, http.MethodPut, path, query, nil, &drained); err != nil {
		return cannotSay, err
	}
	return 0, write(flags, drained, func(to io.Writer) error {
		_, err := fmt.Fprintf(to, "out of service (%s), %d streams ended\n", drained.Scope, drained.Streams)
		return err
	})
}

func listDrains(flags caddycmd.Flags) (int, error) {
	var list handlers.DrainList
	if err := ask(flags, http.MethodGet, "/e2b/drains", nil, nil, &list); err != nil {
		return cannotSay, err
	}
	return 0, write(flags, list, func(to io.Writer) error {
		rows := [][]string{{"OUT OF SERVICE", "NAME", "SCOPE", "SINCE"}}
		for _, name := range slices.Sorted(maps.Keys(list.Clusters)) {
			c := list.Clusters[name]
			rows = append(rows, []string{"cluster", name, string(c.Scope), c.Since.Format(time.RFC3339)})
		}
		for _, id := range slices.Sorted(maps.Keys(list.Sandboxes)) {
			rows = append(rows, []string{"sandbox", id, string(handlers.DrainAll), list.Sandboxes[id].Format(time.RFC3339)})
		}
		return writeTable(to, rows...)
	})
}
