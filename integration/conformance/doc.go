// Package conformance holds the gateway to the suite of those who wrote the protocols: connectrpc.com/conformance, with its own
// runner, its own reference client and its own reference server, and the real binary between these two.
//
// The suite runs twice, once without the gateway and once through it, and every case must end alike. What is called is a port of
// a sandbox, by its host <port>-<id>.<domain>, as any client of a sandbox does it: no case knows that the gateway is there. That
// is an app's port, and then envd's, where the relay is that ends streams.
//
// Full duplex with HTTP/1.1 behind the gateway is not what the suite runs by itself: see whileOpen for what is run of it, and why no more.
//
// Two programs stand in for what the runner starts, and both are this binary once more (see [stage]): a server that has the
// gateway in front of it, and a client whose calls go through it. The second is for the answers that only the suite's own server
// gives: raw ones, cut ones, and those that no protocol allows.
//
// The suite is pinned, with its hashes, in a module of its own, suite/: what it is built from never decides what the gateway is
// built from. Nothing here may know how the gateway works inside.
package conformance
