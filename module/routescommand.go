package module

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-e2b/gateway/handlers"
)

// routesCommand is the command "routes".
var routesCommand = caddycmd.Command{
	Name:  "routes",
	Usage: "get|list|watch|forget",
	Short: "Shows where a running gateway sends the calls of sandboxes",
	Long: `Asks a running gateway, at its admin endpoint, what it knows of sandboxes: where
they are, whose they are, and in which state.`,
	CobraFunc: func(cmd *cobra.Command) {
		cmd.AddCommand(routesGet(), routesList(), routesWatch(), routesForget())
	},
}

func routesGet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get <sandbox> [--fresh] [--json]",
		Short: "Says where a sandbox is, or that it is gone",
		Long: `Says what a request for a sandbox would find: where it is, that it is gone, or that
nobody knows at the moment. What the gateway remembers is used, and the registry is
asked when it remembers nothing; --fresh asks the registry in any case.

The exit code is 0 when the sandbox is here, 1 when it is gone, and 2 when nobody
knows or no gateway answers.`,
		Args: argument("the id of a sandbox"),
		RunE: withArguments(getRoute),
	}
	cmd.Flags().Bool("fresh", false, "ask the registry, whatever is remembered")
	return asksGateway(cmd)
}

func routesList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [--cluster <name>] [--limit <number>] [--json]",
		Short: "Lists the routes that are remembered",
		Long: `Lists the routes of running sandboxes that the gateway remembers, those asked for
longest ago first. Nobody is asked about them.`,
		Args: cobra.NoArgs,
		RunE: caddycmd.WrapCommandFuncForCobra(listRoutes),
	}
	cmd.Flags().String("cluster", "", "only those of this cluster")
	cmd.Flags().Int("limit", defaultListed, "how many at most")
	return asksGateway(cmd)
}

func routesWatch() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [--json]",
		Short: "Shows the changes that registries push, as they come",
		Long: `Writes a line for each change of a sandbox's record that the registry tells the
gateway of, until it is interrupted or the gateway loads another config.`,
		Args: cobra.NoArgs,
		RunE: caddycmd.WrapCommandFuncForCobra(watchRoutes),
	}
	return asksGateway(cmd)
}

func routesForget() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forget <sandbox>|--all [--json]",
		Short: "Has routes asked for again",
		Long: `Forgets what is remembered of a sandbox, or has every route asked for again when it
is next needed. A route that is forgotten is not served as last known either: while
the registry does not answer, the sandbox cannot be reached.`,
		RunE: withArguments(forgetRoute),
	}
	cmd.Flags().Bool("all", false, "all routes")
	return asksGateway(cmd)
}

// asksGateway gives a command the flags of those that ask a running gateway.
func asksGateway(cmd *cobra.Command) *cobra.Command {
	adminFlags(cmd)
	jsonFlag(cmd)
	return cmd
}

var (
	errGone    = errors.New("the sandbox is gone")
	errUnknown = errors.New("nobody knows at the moment where the sandbox is")
)

func getRoute(flags caddycmd.Flags, args []string) (int, error) {
	query := url.Values{}
	if flags.Bool("fresh") {
		query.Set("fresh", "true")
	}
	var r handlers.Resolved
	if err := ask(flags, http.MethodGet, "/e2b/routes/"+url.PathEscape(args[0]), query, nil, &r); err != nil {
		return cannotSay, err
	}
	if err := write(flags, r, func(to io.Writer) error { return printRoute(to, &r) }); err != nil {
		return cannotSay, err
	}
	switch r.Answer {
	case "here":
		return 0, nil
	case "gone":
		return 1, errGone
	}
	return cannotSay, errUnknown
}

// ask puts a question to the gateway that the flags name.
func ask(flags caddycmd.Flags, method, path string, query url.Values, body, to any) error {
	client, err := adminAt(flags)
	if err != nil {
		return err
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return client.call(method, path, body, to)
}

func printRoute(to io.Writer, r *handlers.Resolved) error {
	rows := [][]string{{"sandbox", r.SandboxID}, {"answer", r.Answer}, {"known from", r.Lookup}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("error", r.Error)
	add("cluster", r.Cluster)
	add("state", r.State)
	add("owner", r.Owner)
	add("owner unknown", r.OwnerError)
	add("address", r.Host)
	for _, inside := range slices.Sorted(maps.Keys(r.Ports)) {
		add(fmt.Sprintf("port %d", inside), fmt.Sprint(r.Ports[inside]))
	}
	add("problem", r.Problem)
	if r.Private {
		add("ports", "private")
	}
	if r.Drained {
		add("drained", "yes: new calls are refused")
	}
	return writeTable(to, rows...)
}

func listRoutes(flags caddycmd.Flags) (int, error) {
	var list RouteList
	if err := ask(flags, http.MethodGet, "/e2b/routes", listQuery(flags), nil, &list); err != nil {
		return cannotSay, err
	}
	return 0, write(flags, list, func(to io.Writer) error {
		rows := [][]string{{"SANDBOX", "CLUSTER", "OWNER", "ADDRESS", "AGE"}}
		for _, r := range list.Routes {
			rows = append(rows, []string{r.SandboxID, r.Cluster, r.Owner, r.Host, seconds(r.Age)})
		}
		return printList(to, rows, list.Total)
	})
}

// listQuery is the query of the flags that filter lists.
func listQuery(flags caddycmd.Flags) url.Values {
	query := url.Values{"limit": {strconv.Itoa(flags.Int("limit"))}}
	for _, name := range []string{"sandbox", "cluster"} {
		if value, err := flags.GetString(name); err == nil && value != "" {
			query.Set(name, value)
		}
	}
	return query
}

func printList(to io.Writer, rows [][]string, total int) error {
	if err := writeTable(to, rows...); err != nil {
		return err
	}
	if listed := len(rows) - 1; listed < total {
		_, err := fmt.Fprintf(to, "%d of %d\n", listed, total)
		return err
	}
	return nil
}

func watchRoutes(flags caddycmd.Flags) (int, error) {
	client, err := adminAt(flags)
	if err != nil {
		return cannotSay, err
	}
	err = client.stream("/e2b/watch", func(line json.RawMessage) error {
		var change RouteChange
		if err := json.Unmarshal(line, &change); err != nil {
			return fmt.Errorf("a line of the answer cannot be read: %w", err)
		}
		return write(flags, line, func(to io.Writer) error { return printChange(to, &change) })
	})
	if err != nil {
		return cannotSay, err
	}
	return cannotSay, errors.New("the gateway has loaded another config, or ends: watch again")
}

func printChange(to io.Writer, c *RouteChange) error {
	what := "watching"
	switch {
	case c.SandboxID != nil && *c.SandboxID == "":
		what = "anything may have changed"
	case c.SandboxID != nil:
		what = shown(*c.SandboxID)
	}
	if c.Lost > 0 {
		what = fmt.Sprintf("%s (%d changes before it were too fast to show)", what, c.Lost)
	}
	_, err := fmt.Fprintf(to, "%s  %s\n", c.Time.Format(time.RFC3339), what)
	return err
}

func forgetRoute(flags caddycmd.Flags, args []string) (int, error) {
	path := "/e2b/routes"
	switch all := flags.Bool("all"); {
	case len(args) > 1, all == (len(args) == 1):
		return cannotSay, errors.New("say which: the id of one sandbox, or --all")
	case !all:
		path += "/" + url.PathEscape(args[0])
	}
	var done Invalidated
	if err := ask(flags, http.MethodDelete, path, nil, nil, &done); err != nil {
		return cannotSay, err
	}
	return 0, write(flags, done, func(to io.Writer) error {
		_, err := fmt.Fprintln(to, "done")
		return err
	})
}
