// Package control is the registry for deployments whose Redis is out of reach:
// it asks ROCK's admin role for one sandbox, as an E2B client would, with
// GET /sandboxes/{id}, and turns the answer into a routing.Route.
//
// It is the only registry that works with a local ROCK, whose Redis lives
// inside its process. It knows less than package redis: no ports, and no
// address unless ROCK puts it into the metadata. It hears of no change.
//
// What the answers mean:
//
//   - gone (routing.ErrGone): 404 with E2B's body, {"code":404,"message":…}.
//   - malformed (routing.ErrMalformed): 200 with something that is not this
//     sandbox in a state we know; and 500, which the admin role answers for a
//     record that it cannot show in full (an OpenSandbox record, which has no
//     address).
//   - unavailable (routing.ErrUnavailable): everything else. In particular 404
//     with any other body: FastAPI's {"detail":"Not Found"} says that this is
//     not the admin role, and nothing about sandboxes.
//
// ROCK's own limits show through. It says 404 for a sandbox that is being
// archived; older versions (before envdVersion 0.3.0) say it for one that is
// pending, and show one that is stopped the same way. Newer ones show pending
// as running, so a request may be routed a moment too early. And a ROCK that
// cannot reach its own Redis may say 404, too.
package control
