// Package redis is the registry that ROCK itself keeps: it reads one sandbox's
// record, alive:<id>, from ROCK's Redis and turns it into a routing.Route.
//
// It reads, and writes one thing only: the end of a sandbox in use, timeout:<id>, when it
// is told to push that back. It knows how Redis is reached (one server, Sentinel, Cluster,
// TLS, ACL) and how a record is written; it remembers nothing, as that is the
// cache's work, and decides nothing about who may see a sandbox.
//
// What the answers mean:
//
//   - gone (routing.ErrGone): Redis says that the key does not exist, or the
//     key holds an empty document: [], {}, null, or one of them in an array.
//   - malformed (routing.ErrMalformed): the key holds something else that does
//     not tell the state of this sandbox: another Redis type, no JSON, no
//     object, another sandbox's id, no state, or a state we do not know. A
//     sandbox that a newer ROCK puts into a new state is thus a "don't know"
//     and never "gone".
//   - unavailable (routing.ErrUnavailable): every other failure: no connection,
//     no answer in time, LOADING, CLUSTERDOWN, MASTERDOWN, READONLY, NOAUTH,
//     NOPERM and all other errors of Redis.
//
// Whatever else is wrong with a record costs the part that is wrong and is
// told in Route.Problem. Route.Cluster is left to whoever knows its name.
//
// The texts of errors are for logs: they may name addresses, never a password.
package redis
