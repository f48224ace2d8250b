// Package adapt holds the gateway to the spelling of its Caddyfile: golden
// files say which JSON a Caddyfile becomes, or why it is refused and at which
// line. The files are Caddy's own format for such tests: the Caddyfile, a line
// of ten dashes, what must come of it.
package adapt
