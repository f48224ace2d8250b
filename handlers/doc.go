// Package handlers carries a request to ROCK and its answer back.
//
// It is plain net/http: a unit test drives it with httptest, and package module
// gives it to Caddy. Its subpackages hold one idea each: cause is the table of
// everything that can go wrong and how each protocol says it, protocol tells
// the wire protocols apart, envelope reads the frames of a Connect stream,
// upstream is the client side of a proxied request.
//
// It decides nothing about who may do what (package auth) and nothing about
// where a sandbox lives (package routing).
package handlers
