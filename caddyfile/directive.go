package e2bcaddyfile

import (
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// ParseDirective reads the directive, whose matcher is already taken off.
// Syntax:
//
//	e2b [<matcher>] [control|data|health]
//
// Without a plane it serves both: the path of a request decides which one it
// belongs to. With health it serves what probes ask for instead, GET /e2b/ready and
// GET /e2b/live, and no plane. There is no block: whatever can be set is shared by all sites
// and stands in the global option.
func ParseDirective(d *caddyfile.Dispenser) (*HandlerConfig, error) {
	d.Next() // the directive's own name
	h := new(HandlerConfig)
	if d.NextArg() {
		h.Plane = d.Val()
		if !slices.Contains(planeNames, h.Plane) {
			return nil, d.Errf("%q is no plane: e2b [control|data|health]", h.Plane)
		}
	}
	if d.NextArg() {
		return nil, d.Errf("e2b takes one plane or none, but %q follows; for both planes leave the argument out", d.Val())
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		return nil, d.Errf("unknown option %q: the directive has no options, they belong in the global option e2b", d.Val())
	}
	return h, nil
}
