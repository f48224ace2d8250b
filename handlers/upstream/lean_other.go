//go:build !unix

package upstream

import "github.com/caddy-e2b/gateway/handlers/upstream/h1"

// newLean makes none: it takes system calls that do not wait.
func newLean(Config, *Transport) *h1.Client { return nil }
