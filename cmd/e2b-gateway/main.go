// Command e2b-gateway is Caddy with its standard modules and the E2B gateway.
// Every command of caddy is there: run, reload, validate, adapt and the rest.
//
// It can run nothing but a proxy: no part of a ROCK deployment and no test
// double is linked in.
package main

import (
	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-e2b/gateway/handlers/websocket/overhttp2" // its servers are the gateway's, or Caddy's own, and know them
	_ "github.com/caddy-e2b/gateway/module"
	"github.com/caddy-e2b/gateway/version"
)

func main() {
	giveHeadroom()
	caddy.CustomBinaryName = "e2b-gateway"
	// "version" prints it before the version of Caddy.
	caddy.CustomVersion = "e2b-gateway " + version.Running().String() + " with Caddy"
	caddy.CustomLongDescription = `e2b-gateway stands in front of ROCK deployments and serves unmodified E2B SDK
clients. It is Caddy with one more app; everything a Caddyfile can do, it does.

To start it with a Caddyfile in the current directory:

	$ e2b-gateway run

To check a config without starting anything:

	$ e2b-gateway validate --config /etc/e2b-gateway/Caddyfile

Documentation: https://github.com/caddy-e2b/gateway`
	caddycmd.Main()
}
