package handlers

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// CORS says whether pages of other origins may read the answers (Fetch standard,
// "CORS protocol"). Credentials of both planes are headers that a page must have
// been given, never cookies, so any origin may.
type CORS uint8

const (
	// CORSOn answers preflights and marks answers. The default.
	CORSOn CORS = iota
	// CORSOff leaves both to whatever stands in front of the gateway or behind.
	CORSOff
)

const (
	allowOrigin   = "Access-Control-Allow-Origin"
	exposeHeaders = "Access-Control-Expose-Headers"
)

// Shared by all answers.
var (
	anyOrigin = []string{"*"}
	// exposed are the headers that the SDKs and their Connect libraries read,
	// those that a page needs of a file, and the name under which operators find a
	// request. "*" would do for newer browsers
	// only.
	exposed = []string{"Accept-Ranges, Connect-Accept-Encoding, Connect-Content-Encoding, Content-Disposition, Content-Encoding, " +
		"Content-Range, ETag, Grpc-Message, Grpc-Status, Grpc-Status-Details-Bin, Retry-After, Should-Retry, X-Next-Token, X-Request-Id"}
	preflightMethods = []string{"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}
	// preflightAge is how long a browser remembers the answer, in seconds: as
	// long as Chromium does at most.
	preflightAge  = []string{"7200"}
	preflightVary = []string{"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"}
)

// maxRequestedHeaders is how much a preflight may ask for, in bytes.
const maxRequestedHeaders = 4 << 10

// isPreflight reports a browser's question whether a page may send a request. It
// never carries the request's credentials or routing headers. Any other OPTIONS
// is the client's own.
func (g *Gateway) isPreflight(r *http.Request) bool {
	return g.opt.CORS == CORSOn && r.Method == http.MethodOptions &&
		len(r.Header["Origin"]) == 1 && len(r.Header["Access-Control-Request-Method"]) == 1
}

// servePreflight answers for any call of the planes, without looking at anything
// but the host and the path: whether the call will be allowed is said when it
// comes.
func (g *Gateway) servePreflight(w http.ResponseWriter, r *http.Request, planes Planes, out Outcome) Outcome {
	method := r.Header["Access-Control-Request-Method"][0]
	if !isApp(out.Operation) {
		out.Operation = routing.Classify(method, r.URL.Path)
	}
	if !planes.has(out.Operation.Plane) {
		return refuse(w, r, out, cause.Failure{Cause: cause.NoSuchRoute})
	}
	headers, ok := requestedHeaders(r.Header["Access-Control-Request-Headers"])
	if !ok || !httpguts.ValidHeaderFieldName(method) {
		return refuse(w, r, out, cause.Failure{Cause: cause.BadRequest, Message: "The preflight is not valid"})
	}
	h := w.Header()
	delete(h, exposeHeaders) // is for the answer that follows
	h["Access-Control-Allow-Methods"] = preflightMethods
	if headers != "" {
		// Echoed, because "*" does not cover Authorization.
		h["Access-Control-Allow-Headers"] = []string{headers}
	}
	h["Access-Control-Max-Age"] = preflightAge
	h["Vary"] = preflightVary
	w.WriteHeader(http.StatusNoContent)
	return out
}

// requestedHeaders reads a list of header names and writes it anew.
func requestedHeaders(lines []string) (string, bool) {
	total := 0
	for _, line := range lines {
		total += len(line)
	}
	if total > maxRequestedHeaders {
		return "", false
	}
	var names []string
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.Trim(name, " \t"); name == "" {
				continue
			}
			if !httpguts.ValidHeaderFieldName(name) {
				return "", false
			}
			names = append(names, name)
		}
	}
	return strings.Join(names, ", "), true
}

// allowPages lets the page that asks read the answer, whatever it will be. What
// somebody has set already stays, and what the upstream sets will replace it, so
// that there is never more than one value.
func (g *Gateway) allowPages(w http.ResponseWriter, r *http.Request) {
	if g.opt.CORS == CORSOff || len(r.Header["Origin"]) == 0 {
		return
	}
	h := w.Header()
	if h[allowOrigin] == nil {
		h[allowOrigin] = anyOrigin
	}
	if h[exposeHeaders] == nil {
		h[exposeHeaders] = exposed
	}
}

// leaveToApp takes back what allowPages has said: who may read the answers of a
// user's own app is for that app to say.
func leaveToApp(h http.Header) {
	if v := h[allowOrigin]; len(v) == 1 && &v[0] == &anyOrigin[0] {
		delete(h, allowOrigin)
	}
	if v := h[exposeHeaders]; len(v) == 1 && &v[0] == &exposed[0] {
		delete(h, exposeHeaders)
	}
}
