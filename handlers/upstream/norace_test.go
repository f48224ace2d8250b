//go:build !race

package upstream

const dropped = 0
