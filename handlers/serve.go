package handlers

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/protocol"
	"github.com/caddy-e2b/gateway/handlers/websocket"
	"github.com/caddy-e2b/gateway/routing"
)

// Planes is a set of planes that a site serves.
type Planes uint8

// The planes of the E2B API.
const (
	Control Planes = 1 << iota
	Data
	Both = Control | Data
)

func (p Planes) has(plane routing.Plane) bool {
	switch plane {
	case routing.ControlPlane:
		return p&Control != 0
	case routing.DataPlane:
		return p&Data != 0
	default:
		return false
	}
}

// ServeHTTP serves both planes to peers of which nothing is known.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var out Outcome
	if g.Serve(w, r, Both, Stranger, &out); out.Abort {
		panic(http.ErrAbortHandler)
	}
}

// Serve answers r, always: a path that is no call of the given planes gets a
// 404 in E2B's shape. What becomes of it is written to out, of which only the Trail is
// read before. When out.Abort is set the caller must end with
// panic(http.ErrAbortHandler), after it has logged what it wants to log: the
// answer was cut and only a broken transport can tell the client.
func (g *Gateway) Serve(w http.ResponseWriter, r *http.Request, planes Planes, peer Peer, out *Outcome) {
	g.serve(w, r, planes, peer, out)
	g.count(out)
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, planes Planes, peer Peer, out *Outcome) {
	out.Trail.begin(w, r, peer)
	peer.meet(r)
	host, badHost := g.hosts.Read(r.Host)
	*out = Outcome{Operation: operationOf(r, host, planes), Err: badHost, Trail: out.Trail, peer: peer}
	op := &out.Operation
	if host.Kind == routing.PreviewHost {
		planes &= Data // there is nothing else
	}
	welcome := g.calls.enter()
	defer g.calls.leave()
	g.allowPages(w, r)
	if !welcome {
		closeConnection(w, r)
		*out = refuse(w, r, *out, cause.Failure{Cause: cause.Drain})
		return
	}
	if f := g.unreadable(r, out, planes); f != nil {
		*out = refuse(w, r, *out, *f)
		return
	}
	switch {
	case g.isPreflight(r) && !(isApp(*op) && g.isOpen(r, host)):
		*out = g.servePreflight(w, r, planes, *out)
	case websocket.Extended(r) && op.Plane != routing.DataPlane:
		*out = refuse(w, r, *out, cause.Failure{Cause: cause.NoSuchRoute})
	case planes&Control != 0 && op.Plane == routing.NoPlane:
		if *op = g.nativeOperation(r); op.Plane != routing.NoPlane {
			*out = g.serveNative(w, r, *out)
			return
		}
		*out = refuse(w, r, *out, cause.Failure{Cause: cause.NoSuchRoute})
	case !planes.has(op.Plane):
		*out = refuse(w, r, *out, cause.Failure{Cause: cause.NoSuchRoute})
	case op.Plane == routing.ControlPlane:
		*out = g.serveControl(w, r, *out)
	default:
		g.serveData(w, r, &host, out)
	}
}

// namesTwoHosts reports a request over HTTP/2 or HTTP/3 with a Host header that is not its
// :authority. Go's server refuses it over HTTP/1.1; of its others not every version does
// (RFC 9113 section 8.3.1).
func namesTwoHosts(r *http.Request) bool {
	hosts := r.Header["Host"]
	return len(hosts) > 1 || len(hosts) == 1 && hosts[0] != r.Host
}

// unreadable is what a request is told that cannot be read in one way only, or
// asks for what is nobody's to ask for, whoever sends it. Nil: it may go on.
func (g *Gateway) unreadable(r *http.Request, out *Outcome, planes Planes) *cause.Failure {
	switch {
	case !sendable(r):
		return &cause.Failure{Cause: cause.BadRequest, Message: "The request line is not valid"}
	case namesTwoHosts(r):
		return &cause.Failure{Cause: cause.BadRequest, Message: "The request names two hosts: its header Host is not its :authority"}
	case g.opt.MaxHeader > 0 && headerSize(r) > g.opt.MaxHeader:
		return &cause.Failure{Cause: cause.HeaderTooLarge}
	case out.Err != nil: // of reading the host
		f := refusalOfHost(out.Err)
		return &f
	case planes&Data != 0 && !isApp(out.Operation) && routing.Reserved(r.URL.Path):
		return &cause.Failure{Cause: cause.Reserved, Path: r.URL.Path}
	}
	return nil
}

// refuse answers with a failure that was known before anything was sent on.
func refuse(w http.ResponseWriter, r *http.Request, out Outcome, f cause.Failure) Outcome {
	if f.Cause != cause.ClientGone {
		awaitBody(w, r)
	}
	return tell(w, r, out, f)
}

// maxAwaited is how much of a body is waited for before a refusal, in bytes: as
// much as net/http takes over HTTP/1.1 by itself.
const maxAwaited = 256 << 10

// awaitBody lets a client of HTTP/2 send its body to the end before it is
// refused, if that is short. After an answer that came earlier, net/http resets
// the stream (RFC 9113 section 8.1), and there are clients, Python's h2 and curl
// among them, that throw the answer away at a reset: their users would see a
// broken connection and not that their key is wrong.
func awaitBody(w http.ResponseWriter, r *http.Request) {
	if websocket.Extended(r) {
		return // it sends nothing before the answer, and does not end
	}
	if r.ProtoMajor != 2 || r.ContentLength == 0 || r.ContentLength > maxAwaited || r.Header.Get("Expect") != "" {
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(abandonedBodyGrace))
	_, _ = io.CopyN(io.Discard, r.Body, maxAwaited)
}

// tell is refuse without a look at the request's body.
func tell(w http.ResponseWriter, r *http.Request, out Outcome, f cause.Failure) Outcome {
	out.End = f.Cause
	if f.Cause == cause.ClientGone {
		// Returning would send an empty 200.
		out.Abort = true
		return out
	}
	out.Identify(r)
	out.Trail.mark(w)
	if out.Operation.Name == healthCall {
		f.WriteHealth(w)
		return out
	}
	f.Write(w, protocolOf(r, out.Operation), r.Header.Get("Content-Type"))
	return out
}

// Names of the calls that need a rule of their own (routing.Classify).
const (
	healthCall  = "health"
	filesCall   = "files"
	createCall  = "Sandbox.create"
	infoCall    = "Sandbox.get_info"
	killCall    = "Sandbox.kill"
	pauseCall   = "Sandbox.pause"
	connectCall = "Sandbox.connect"
	resumeCall  = "Sandbox.resume"
	refreshCall = "Sandbox.refresh"
)

// protocolOf is the protocol in which a failure of the call must be told. Only
// the path of an RPC makes an RPC: /files takes any content type.
func protocolOf(r *http.Request, op routing.Operation) protocol.Protocol {
	switch {
	case op.Plane == routing.ControlPlane:
		return protocol.Plain
	case isApp(op):
		return protocol.OfApp(r)
	case op.Plane == routing.DataPlane && op.Name != healthCall && op.Name != filesCall:
		return protocol.OfRPC(r)
	default:
		return protocol.OfPage(r)
	}
}

// sendable reports a request that can be written as one and read in one way
// only. HTTP/2 lets a client put a space into its path, any word into its
// method, and name two lengths or none that is a number. TRACE is no call of any API,
// and CONNECT opens nothing but a WebSocket.
func sendable(r *http.Request) bool {
	if told := r.Header["Content-Length"]; len(told) > 0 {
		// net/http makes 0 of what is no number, and serves the request.
		if _, err := strconv.ParseUint(told[0], 10, 63); err != nil || len(told) > 1 {
			return false
		}
	}
	for i := 0; i < len(r.RequestURI); i++ {
		if c := r.RequestURI[i]; c <= ' ' || c == 0x7f {
			return false
		}
	}
	if websocket.Misnamed(r) || r.Method == http.MethodConnect && !websocket.Extended(r) {
		return false
	}
	return r.Method != http.MethodTrace && httpguts.ValidHeaderFieldName(r.Method)
}
