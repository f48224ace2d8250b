// Package overhttp2 lets the program that it is linked into offer WebSockets over HTTP/2
// (RFC 8441) to its clients. It is for main packages: it changes what all servers of the
// process offer. A library must leave that to them.
//
// net/http knows extended CONNECT and does not offer it, as handlers that do not know it
// would fail browsers that take the offer (golang/go#71128). What turns it on is
// GODEBUG=http2xconnect=1 in the environment when net/http is initialised; it is no setting
// that a directive in a source file can have. So this package must be initialised before
// net/http, and is: of the packages whose imports are initialised the one whose path sorts
// first comes first (Go specification, "Program initialization"), and this one imports
// nothing but os and strings. Its test fails the day that is not so any more.
//
// Without the offer clients open an HTTP/1.1 connection for a WebSocket, as ever.
package overhttp2

import (
	"os"
	"strings"
)

const setting = "http2xconnect="

// An operator's own word, for or against, stays.
func init() {
	switch debug := os.Getenv("GODEBUG"); {
	case strings.Contains(debug, setting):
	case debug == "":
		_ = os.Setenv("GODEBUG", setting+"1") // the name and the value are valid
	default:
		_ = os.Setenv("GODEBUG", debug+","+setting+"1")
	}
}
