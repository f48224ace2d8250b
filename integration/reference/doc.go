// Package reference writes docs/configuration.md, the reference of all that can
// be configured, out of the doc comments of the config structs and of the
// parsers of the Caddyfile, and holds the file to them.
//
//	go test ./integration/reference            fails when the file is out of date, or a comment says too little
//	go test ./integration/reference -update    writes it anew
package reference
