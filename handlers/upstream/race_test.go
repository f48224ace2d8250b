//go:build race

package upstream

// dropped is how many allocations more a call may take: the detector lets sync.Pool
// forget some of what it is given.
const dropped = 4
