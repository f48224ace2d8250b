package handlers

import (
	"net"
	"net/http"
	"strings"

	"github.com/caddy-e2b/gateway/auth"
)

// Peer is who is at the other end of a client's connection.
type Peer uint8

const (
	// Stranger is anybody. Where its requests come from is what its connection
	// says, and nothing else.
	Stranger Peer = iota
	// TrustedProxy is a proxy of the operator's, whose X-Forwarded headers are
	// true.
	TrustedProxy
)

// meet takes what a stranger says about where a request comes from out of it,
// before anything can believe it. A trusted proxy vouches for the usual
// spelling only: it may pass on the others as its client sent them.
func (p Peer) meet(r *http.Request) {
	for name := range r.Header {
		if auth.Forwarded(name) && (p != TrustedProxy || strings.ContainsAny(name, "_.")) {
			delete(r.Header, name)
		}
	}
}

// The values of X-Forwarded-Proto. Shared by all requests.
var (
	overHTTP  = []string{"http"}
	overHTTPS = []string{"https"}
)

// schemeOf is that of the URL in the client's hands, as far as this hop, or a proxy
// that is trusted, can say.
func schemeOf(r *http.Request) []string {
	switch told := r.Header["X-Forwarded-Proto"]; {
	case len(told) > 0:
		return told
	case r.TLS != nil:
		return overHTTPS
	default:
		return overHTTP
	}
}

// setForwarded tells the next hop where a request comes from, as reverse proxies
// do: the client's address is appended to those that a trusted proxy has told,
// whose word about scheme and host stands.
func (p *parts) setForwarded(h http.Header, r *http.Request) {
	// No address: the peer is on a Unix socket.
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	address, _, _ = strings.Cut(address, "%") // a zone means something here only
	if prior := h["X-Forwarded-For"]; len(prior) > 0 && address != "" {
		address = strings.Join(prior, ", ") + ", " + address
	}
	if address != "" {
		p.forwardedFor[0] = address
		h["X-Forwarded-For"] = p.forwardedFor[:]
	}
	if len(h["X-Forwarded-Proto"]) == 0 {
		h["X-Forwarded-Proto"] = schemeOf(r)
	}
	if len(h["X-Forwarded-Host"]) == 0 && r.Host != "" {
		p.host[0] = r.Host
		h["X-Forwarded-Host"] = p.host[:]
	}
}
