// Package commands runs the commands of the real binary that look at tokens and at
// a running gateway, and holds docs/commands.md against them.
package commands
