// Package doctor runs the command "doctor" of the real binary against a
// deployment with nothing wrong, and against deployments with one thing wrong
// each.
package doctor
