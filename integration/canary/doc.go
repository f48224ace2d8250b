// Package canary puts a value of its own into every place where a secret can
// stand, makes everything go wrong that can, and looks for the values in all
// that comes out: logs, metrics, the admin endpoint, commands, traces, answers
// to others, and what ROCK receives.
package canary
