// Package harness starts the gateway for a test: as the real binary in a
// process of its own or, by its package inprocess, inside the test's process.
//
// Both take a Caddyfile as an operator would write it and change only what a
// test must decide itself: every listener moves to a free loopback port, the
// transport (cleartext, TLS with HTTP/1.1, TLS with HTTP/2) is the test's,
// certificates come from an authority that was made for the test (what the
// Caddyfile says about client certificates stays), the admin
// endpoint and all files stay in a temporary directory. A Caddyfile that says
// "domain "+[Domain]+":"+[Port] makes a gateway whose sandboxes have hosts that
// every client on this machine can dial.
//
// It knows Caddy's config and nothing of E2B, and is not linked with Caddy: some
// forty binaries of tests are, or are not, with it. Caddy's config is global to a process, so
// gateways inside a process run one after the other; Start says so when a test
// forgets.
package harness
