package module

import (
	_ "embed"
	"net/http"
)

// statusPage is the whole status page: one file, which asks the other routes for what
// it shows.
//
//go:embed status.html
var statusPage []byte

// pagePolicy lets the page run its own script, which is in it, and ask this endpoint;
// nothing else, and nobody may frame it. The hashes are those of its script and style.
var pagePolicy = contentPolicy(statusPage)

func (a *Admin) page(w http.ResponseWriter, _ *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin") // Caddy's admin endpoint wants to know where a request comes from
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	_, _ = w.Write(statusPage) // whoever asked has left
	return nil
}
