// Package owners tests that nobody touches what is not theirs: the whole
// gateway, a real Redis, the ROCK double.
package owners
