// Package soak serves mixed traffic at half load for half an hour while things go wrong, and asks two questions: was any answer wrong,
// and does the gateway hold more at the end than it did at the beginning.
//
// The gateway is the real binary and its registry a real Redis; ROCK is the double, and sandboxes run real commands. The full form is `make
// soak`, which writes docs/soak.md; the short form is part of every run of the tests and judges answers and what is left at rest, because nothing can
// be said about growth within seconds.
package soak
