// Command e2b-gateway is Caddy with its standard modules and the E2B gateway.
// Every command of caddy is there: run, reload, validate, adapt and the rest.
//
// It can run nothing but a proxy: no part of a ROCK deployment and no test
// double is linked in.
package main

import (
	"os"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-e2b/gateway/handlers/websocket/overhttp2" // its servers are the gateway's, or Caddy's own, and know them
	_ "github.com/caddy-e2b/gateway/module"
)

// gcPercent is how much may be allocated until memory is collected again, in percent of
// what lives: twice Go's default. A gateway allocates much for each call and keeps
// little, so the collector is what a call's cost can be cut by most. GOGC overrides it.
// How much there may be in all is Caddy's to set: nine tenths of what the container,
// or the machine, has, unless GOMEMLIMIT says otherwise.
const gcPercent = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	caddy.CustomBinaryName = "e2b-gateway"
	caddy.CustomLongDescription = `e2b-gateway stands in front of ROCK deployments and serves unmodified E2B SDK
clients. It is Caddy with one more app; everything a Caddyfile can do, it does.

To start it with a Caddyfile in the current directory:

	$ e2b-gateway run

To check a config without starting anything:

	$ e2b-gateway validate --config /etc/e2b-gateway/Caddyfile

Documentation: https://github.com/caddy-e2b/gateway`
	caddycmd.Main()
}
