package handlers

import "net/http"

// domainFor is the domain that the client of r is told: the one that the host of
// the request belongs to, which this client can reach, else the first. "" without
// domains.
func (g *Gateway) domainFor(r *http.Request) string { return g.hosts.DomainFor(r.Host).String() }
