package module

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// streamsCommand is the command "streams".
var streamsCommand = caddycmd.Command{
	Name:  "streams",
	Usage: "list|end",
	Short: "Lists and ends the streams of a running gateway",
	Long: `Asks a running gateway, at its admin endpoint, for the streams and WebSockets that
run through it, and ends them.`,
	CobraFunc: func(cmd *cobra.Command) {
		cmd.AddCommand(streamsList(), streamsEnd())
	},
}

func streamsList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [--sandbox <id>] [--cluster <name>] [--limit <number>] [--json]",
		Short: "Lists the streams that run, the oldest first",
		Args:  cobra.NoArgs,
		RunE:  caddycmd.WrapCommandFuncForCobra(listStreams),
	}
	streamFlags(cmd)
	cmd.Flags().Int("limit", defaultListed, "how many at most")
	return asksGateway(cmd)
}

func streamsEnd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "end <stream>|--sandbox <id>|--cluster <name> [--json]",
		Short: "Ends streams in their protocol",
		Long: `Ends one stream, by its id in the list, or all of a sandbox or of a cluster. Each is
ended in its protocol, as when the gateway stops: its client is told that the
sandbox still runs, and may come back. The gateway writes who ended what to its log.`,
		RunE: withArguments(endStreams),
	}
	streamFlags(cmd)
	return asksGateway(cmd)
}

func streamFlags(cmd *cobra.Command) {
	cmd.Flags().String("sandbox", "", "only those of this sandbox")
	cmd.Flags().String("cluster", "", "only those of this cluster")
}

func listStreams(flags caddycmd.Flags) (int, error) {
	var list StreamList
	if err := ask(flags, http.MethodGet, "/e2b/streams", listQuery(flags), nil, &list); err != nil {
		return cannotSay, err
	}
	return 0, write(flags, list, func(to io.Writer) error {
		rows := [][]string{{"STREAM", "SANDBOX", "PORT", "CLUSTER", "OPERATION", "OWNER", "CLIENT", "AGE", "IDLE"}}
		for _, s := range list.Streams {
			idle := ""
			if s.Idle != nil {
				idle = seconds(*s.Idle)
			}
			rows = append(rows, []string{fmt.Sprint(s.ID), s.SandboxID, fmt.Sprint(s.Port), s.Cluster, s.Operation, s.Subject, s.Client, seconds(s.Age), idle})
		}
		return printList(to, rows, list.Total)
	})
}

func endStreams(flags caddycmd.Flags, args []string) (int, error) {
	sandbox, cluster := flags.String("sandbox"), flags.String("cluster")
	path, query := "/e2b/streams", url.Values{}
	switch filtered := sandbox != "" || cluster != ""; {
	case len(args) > 1, filtered == (len(args) == 1):
		return cannotSay, errors.New("say which: the id of one stream, or --sandbox, or --cluster")
	case !filtered:
		path += "/" + url.PathEscape(args[0])
	}
	if sandbox != "" {
		query.Set("sandbox", sandbox)
	}
	if cluster != "" {
		query.Set("cluster", cluster)
	}
	var ended Ended
	if err := ask(flags, http.MethodDelete, path, query, nil, &ended); err != nil {
		return cannotSay, err
	}
	return 0, write(flags, ended, func(to io.Writer) error {
		_, err := fmt.Fprintf(to, "%d ended\n", ended.Streams)
		return err
	})
}
