package module

import (
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	"github.com/caddy-e2b/gateway/handlers"
)

// Handler is the handler "http.handlers.e2b". It serves the calls of the E2B
// API with what the app "e2b" holds.
//
// It answers every request itself and never calls the next handler: a path
// that is no call of its planes gets a 404 in E2B's shape, because an SDK could
// not read anything else. Give it a matcher to serve other things on the same
// site.
//
// It sets these placeholders:
//
// Placeholder | Description
// ------------|-------------
// `{http.e2b.sandbox_id}` | The sandbox's id, checked, or empty
// `{http.e2b.sandbox_port}` | The port of the sandbox that was asked for, or empty
// `{http.e2b.subject}` | Whose key was sent, or whose sandbox was used, or empty
// `{http.e2b.cluster}` | The cluster that was asked, or empty
// `{http.e2b.plane}` | `control`, `data` or `none`
// `{http.e2b.operation}` | The call, e.g. `Sandbox.create` or `process.Process/Start`
// `{http.e2b.upstream}` | The address the request was sent to, or empty
// `{http.e2b.upstream_status}` | The HTTP status of ROCK's or the sandbox's answer, or 0
// `{http.e2b.end}` | How the request ended, e.g. `ok` or `sandbox_gone`
// `{http.e2b.lookup}` | Where the route came from: `cache`, `registry`, `stale` or `none`
// `{http.e2b.request_id}` | The request's own name, which is in the header `X-Request-Id` of the answer
// `{http.e2b.trace_id}` | What other programs call what the request is a part of: the trace-id of `traceparent`, or `eagleeye-traceid`
// `{http.e2b.lookup_duration}` | How long it took to find out where the sandbox is, and on the control plane whose it is
// `{http.e2b.ready_duration}` | How long the request waited for its sandbox to start
// `{http.e2b.connect_duration}` | How long it took to connect to ROCK or the sandbox; 0 on a connection that was there
// `{http.e2b.first_byte_duration}` | How long ROCK or the sandbox then took to begin its answer
//
// They have their values once the handler is done, so in logs and in trace
// attributes but not in handlers that come before it. The access log has the
// same as fields, without the prefix. The durations are taken, and every request has a
// request_id, where the server has an access log.
type Handler struct {
	e2bcaddyfile.HandlerConfig

	shared *shared
	planes handlers.Planes
	logger *zap.Logger
	// accessLog says that the server has an access log, which is the only
	// reader of its fields.
	accessLog bool
	// sampling: one in so many healthy requests has a line there.
	sampling uint32
	// said counts the lines about requests that failed.
	said *complaints
	// unlogged keeps requests out of the access log, because credentials would
	// be in it.
	unlogged bool
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers." + name, New: func() caddy.Module { return new(Handler) }}
}

// Provision finds the app.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger, h.said = ctx.Logger(), new(complaints)
	app, err := ctx.AppIfConfigured(name)
	if err != nil {
		return fmt.Errorf("the handler e2b needs the app e2b: %w", err)
	}
	h.shared, h.sampling = app.(*App).shared, uint32(app.(*App).LogSampling)
	switch h.Plane {
	case "control":
		h.planes = handlers.Control
	case "data":
		h.planes = handlers.Data
	default:
		h.planes = handlers.Both
	}
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		h.accessLog = server.Logs != nil
		if !redactServer(server) && h.accessLog {
			h.unlogged = true
			h.logger.Warn("credentials cannot be taken out of the access log of this version of Caddy: it will have no line about "+
				"requests that e2b serves", zap.String("server", server.Name()))
		}
		if h.Plane == planeHealth {
			return nil // nothing lasts there
		}
		if server.IdleTimeout == 0 {
			server.IdleTimeout = caddy.Duration(idleTimeout)
		}
		makeRoom(server, app.(*App).Limits)
		drainOnExit(ctx, server)
		app.(*App).adviseListener(server)
	}
	return nil
}

// planeHealth is the plane of a site for probes.
const planeHealth = "health"

// idleTimeout is how long a server of ours keeps a client's unused connection,
// unless "servers { timeouts { idle … } }" says otherwise. Caddy's default, 5m,
// is to the second what Python's SDK keeps its own connections for: it would
// send requests on connections that are just being closed, and shows its user
// the raw error. Load balancers keep theirs for up to 10m.
const idleTimeout = 11 * time.Minute

// Validate checks the plane.
func (h *Handler) Validate() error { return h.Check() }

// ServeHTTP answers the request. It returns no error: what goes wrong is told
// to the client in the protocol of the call, and Caddy's error routes know none
// of those.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if h.Plane == planeHealth {
		return h.serveHealth(w, r)
	}
	if h.unlogged {
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	}
	live, err := h.shared.acquire()
	if err != nil {
		// Only a request that comes after its config was replaced can get
		// here, on a connection that is being drained, when the parts it needs
		// cannot be made again. An error of Caddy's would be read as one of
		// the sandbox; a broken connection says nothing false.
		h.logger.Error("a request came too late for its config", zap.Error(err))
		panic(http.ErrAbortHandler)
	}
	defer h.shared.release()
	if caddy.Exiting() && r.ProtoMajor == 1 && r.Header.Get("Upgrade") == "" {
		// Work goes on during shutdown_delay, but not the connection: a client
		// that is told so opens another one, elsewhere. Over HTTP/2 this would
		// be a GOAWAY.
		w.Header().Set("Connection", "close")
	}
	out := h.outcome()
	live.gateway.Serve(w, r, h.planes, peerOf(r), out)
	h.record(r, out)
	history.Note(r, out)
	if out.Abort {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// peerOf tells a proxy of the operator's (servers { trusted_proxies … }) from
// everybody else.
func peerOf(r *http.Request) handlers.Peer {
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		return handlers.TrustedProxy
	}
	return handlers.Stranger
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
