package handlers

import (
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// Outcome is what became of one request, for the log line and the
// placeholders. It holds no secret. What a client can choose in it, the id and
// the name of an RPC, is made of characters that are safe to print; neither is
// fit for a metric's label.
type Outcome struct {
	Operation routing.Operation
	// SandboxID is the checked id, or "" when there was none.
	SandboxID string
	// Subject is whose key was sent, or whose sandbox was used with what was
	// made for it. "" when nobody's is known, or access is off.
	Subject string
	// Cluster is the name of the cluster that was asked, or "".
	Cluster string
	// Upstream is the "host:port" that was sent the request, or "" when
	// nothing was sent. For logs only; it never reaches a client.
	Upstream string
	// Port is the port of the sandbox that was asked for, or 0.
	Port uint16
	// Status is what ROCK or the sandbox has answered, or 0. The client was told
	// something else if the gateway has translated it.
	Status uint16
	// Stream: it was a stream, or a WebSocket.
	Stream bool
	// Lookup says where the route came from.
	Lookup routing.Source
	// Abort: the transport must be broken, see Gateway.Serve.
	Abort bool
	peer  Peer
	// End is how it ended. cause.OK also when ROCK or envd answered with an
	// error of their own that was passed on.
	End cause.Cause
	// Err is the error behind End, for logs only.
	Err error
	// Trail is what was given to Gateway.Serve, or that of a request which the
	// gateway itself has ended; or nil.
	Trail *Trail
}
