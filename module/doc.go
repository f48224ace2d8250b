// Package module is everything of the gateway that knows Caddy: the app "e2b"
// that holds what is shared, the handler "http.handlers.e2b" that serves
// requests, the registries as modules of namespace "e2b.registries", the
// listener wrapper "caddy.listeners.e2b" that lets connections outlive configs,
// and the spelling of all four in a Caddyfile.
//
// It decides nothing about a request. It turns a config into a
// [handlers.Gateway], keeps what that gateway is made of alive for as long as
// somebody uses it, drains it when the process exits, and writes down what
// became of each request. What an answer looks like is for package handlers,
// where a sandbox is for package routing.
package module
