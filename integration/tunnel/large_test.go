//go:build !race

package tunnel

// large is how much is carried in one request or answer, in bytes.
const large = 200 << 20
