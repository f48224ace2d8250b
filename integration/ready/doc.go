// Package ready uses sandboxes that are only starting, and sandboxes for longer than
// ROCK would keep them: the real binary of the gateway, a real Redis, and the ROCK
// double, whose sandboxes get alive only when somebody asks for their status.
package ready
