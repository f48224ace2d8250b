// Package cost counts what one request costs the gateway: allocations and calls
// to Redis, exactly, of the real binary with everything on. It knows no time, so
// what it asserts holds on any machine.
//
// The benchmark beside the tests is for whoever works on the request's path: it
// has the same requests, in one process, for the profiler of go test.
package cost
