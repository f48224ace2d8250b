//go:build race

package tunnel

// large is less here: the detector looks at every byte that is masked.
const large = 16 << 20
