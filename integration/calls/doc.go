// Package calls watches single calls on real connections, through the whole
// gateway, where net/http and Caddy could get into their way: the request body
// that races with a streaming answer, and silence in either direction.
package calls
