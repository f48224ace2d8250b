// Package e2bcaddyfile is the configuration of the gateway: the structs that
// are its JSON form, and the parsers that read the Caddyfile into them.
//
// The structs are the reference: every exported field says what it does, its
// unit and its default. A Caddyfile and a JSON config have the same power,
// because the one is only another spelling of the other.
//
// Whatever can be known to be wrong without leaving the file (an unknown
// option, one given twice, two that contradict each other, a value out of
// range) is an error at adapt time that names the file and the line.
//
// Nothing is registered here, nothing is opened and nothing is expanded: that
// is for package module, which this package never imports.
package e2bcaddyfile
