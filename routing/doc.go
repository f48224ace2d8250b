// Package routing answers one question: where does this request go?
//
// It has three parts, each usable without the others. A request is read into a
// [Target] (which sandbox, which port) and an [Operation] (which call of which
// plane). A [Registry] turns a sandbox id into a [Route]. A [Cluster] turns a
// Route into the address of the next hop.
//
// It is plain Go: no Caddy, no authentication, no response is written here.
// Whoever calls it decides what an error looks like on the wire.
package routing
