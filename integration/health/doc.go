// Package health asks the real gateway whether it is ready while what it needs dies and
// returns: a real Redis, and the roles of the ROCK double.
package health
