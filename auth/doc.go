// Package auth knows who may do what: API keys, access tokens and traffic
// tokens, signed URLs, and what the credentials of the E2B and ROCK APIs are
// called.
//
// It is plain Go and imports no Caddy package. It never logs, it compares
// secrets in constant time, and nothing it returns or prints holds a credential
// in clear. Stores that do I/O are in packages below it.
package auth
