// Package tunnel tests how ports of sandboxes are reached: at the port that their
// record maps, through the rocklet in the sandbox, and by HTTP/2 without TLS where
// a service speaks gRPC. A real gateway, a real Redis, real sockets.
package tunnel
