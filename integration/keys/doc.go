// Package keys runs the command "keys" of the real binary.
package keys
