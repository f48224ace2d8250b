// Package rolling replaces the gateways behind a load balancer one after the other, as a deploy does, while clients use them. The
// load balancer is a real HAProxy with the config that deploy/haproxy ships, the gateways are processes of the real binary with the
// Caddyfile beside that, and so is the Redis between them and the ROCK double.
//
// The short form of it is part of every run of the tests; `make rolling` is the full one.
package rolling
