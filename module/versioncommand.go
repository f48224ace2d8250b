package module

import (
	"encoding/json"
	"os"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-e2b/gateway/version"
)

// versionCommand is the command "gateway-version": "version" is Caddy's, and
// says in a Caddy made with xcaddy nothing of the modules in it.
var versionCommand = caddycmd.Command{
	Name:  "gateway-version",
	Usage: "[--json]",
	Short: "Prints which gateway this is, and which Caddy",
	Long: `Prints the version of the gateway, the commit it was built of, the version of
Caddy that it is part of, and that of Go. What nobody could know when it was built
is "unknown".

"version" is Caddy's command. In e2b-gateway it prints this, too, in one line; in a
Caddy made with xcaddy it prints Caddy's version alone.`,
	CobraFunc: func(cmd *cobra.Command) {
		cmd.Args = noArguments
		cmd.RunE = caddycmd.WrapCommandFuncForCobra(printVersion)
		jsonFlag(cmd)
	},
}

func printVersion(flags caddycmd.Flags) (int, error) {
	v := version.Running()
	if flags.Bool("json") {
		return caddy.ExitCodeSuccess, json.NewEncoder(os.Stdout).Encode(v)
	}
	return caddy.ExitCodeSuccess, writeTable(os.Stdout, []string{"gateway", v.Gateway}, []string{"revision", v.Revision},
		[]string{"committed", v.Committed}, []string{"caddy", v.Caddy}, []string{"go", v.Go})
}
