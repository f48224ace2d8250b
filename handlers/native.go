package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// RockAPI is who may use ROCK's own API through the gateway.
type RockAPI uint8

const (
	// RockAPIOff: nobody. Its paths are no calls.
	RockAPIOff RockAPI = iota
	// RockAPIAdmin: the holders of keys with the scope admin.
	RockAPIAdmin
)

// nativeOperation is the call of ROCK's own API that r makes, or the zero
// Operation. It goes by the path that ROCK will get, to the byte.
func (g *Gateway) nativeOperation(r *http.Request) routing.Operation {
	if g.opt.RockAPI != RockAPIAdmin || g.opt.Access == nil {
		return routing.Operation{}
	}
	u := exactURL(r)
	sent := u.Opaque
	if sent == "" {
		sent = u.EscapedPath()
	}
	return routing.ClassifyNative(r.Method, sent)
}

// nativeKey is the API key of a ROCK SDK, which may also be in X-Key or, in
// older ones, the Bearer token of XRL-Authorization.
func nativeKey(h http.Header) (string, error) {
	if key, err := e2bKey(h); key != "" || err != nil || len(h[auth.HeaderAPIKey]) > 0 {
		return key, err
	}
	switch key, err := auth.Sole(h, auth.HeaderRockKey); {
	case err == nil:
		return key, nil
	case !errors.Is(err, auth.ErrNotSent):
		return "", errTwoKeys
	}
	return bearer(h[auth.HeaderRockAuthorization])
}

// identifyAdmin finds out who calls ROCK's own API.
func (g *Gateway) identifyAdmin(r *http.Request) (*caller, cause.Failure, error) {
	who, f, err := g.identify(r, nativeKey)
	if f.Cause == cause.OK && !who.admin() {
		f = cause.Failure{Cause: cause.Forbidden}
	}
	return who, f, err
}

// serveNative carries a call of ROCK's own API. ROCK's answer is passed on as it
// is: its SDKs read its way of failing, and an admin may see everything.
func (g *Gateway) serveNative(w http.ResponseWriter, r *http.Request, out Outcome) Outcome {
	who, f, err := g.identifyAdmin(r)
	if f.Cause != cause.OK {
		out.Err = err
		return refuse(w, r, out, f)
	}
	out.Subject = who.name()
	if f := g.withinLimits(w, r, who, out.Operation); f != nil {
		return refuse(w, r, out, *f)
	}
	body, err := g.readHeld(w, r)
	if err != nil {
		out.Err = err
		return refuse(w, r, out, causeOfBody(r, err))
	}
	if who, f, err = g.identifyAdmin(r); f.Cause != cause.OK {
		out.Err = err
		return refuse(w, r, out, f)
	}
	out.SandboxID = nativeSandbox(out.Operation, r.URL.RawQuery, body)
	ctx, cancel := context.WithTimeout(withTrail(r.Context(), out.Trail), g.opt.ControlTimeout)
	defer cancel()
	call := &running{cancel: cancelFunc(func(error) { cancel() })}
	g.calls.add(call)
	defer g.calls.remove(call)
	if out.Operation.ChangesState && out.SandboxID != "" {
		defer g.opt.Deaths.begin(out.SandboxID)()
		defer g.invalidate(out.SandboxID)
	}
	cluster := g.nativeCluster(ctx, out.SandboxID)
	out.Cluster = cluster.Name
	resp, address, err := g.sendControl(ctx, r, who, cluster, out.Operation, body)
	out.Upstream = address
	if err != nil {
		out.Err = err
		return refuse(w, r, out, controlFailure(r.Context(), ctx, err))
	}
	defer resp.Body.Close()
	out.Status = uint16(resp.StatusCode)
	if !knownStatus(resp.StatusCode) || isRedirect(resp.StatusCode) {
		return refuse(w, r, out, unknownOutcome(cause.UpstreamInvalid))
	}
	answerHeaders(w.Header(), resp)
	who.keepUncached(w.Header())
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		out.Err, out.End, out.Abort = err, cause.Truncated, true
		if r.Context().Err() != nil {
			out.End = cause.ClientGone
		}
	}
	return out
}

// nativeSandbox is the sandbox that a call is about: in the path, the query or
// the body. "" when it cannot be told.
func nativeSandbox(op routing.Operation, rawQuery string, body []byte) string {
	id := op.SandboxID
	if query, err := url.ParseQuery(rawQuery); id == "" && err == nil {
		id = query.Get("sandbox_id")
	}
	if id == "" {
		var about struct {
			SandboxID string `json:"sandbox_id"`
		}
		if json.Unmarshal(body, &about) == nil {
			id = about.SandboxID
		}
	}
	if !routing.ValidSandboxID(id) {
		return ""
	}
	return id
}

// nativeCluster is where a sandbox is, else the first cluster.
func (g *Gateway) nativeCluster(ctx context.Context, sandboxID string) *routing.Cluster {
	if len(g.opt.Clusters) > 1 && sandboxID != "" {
		if route, _, err := g.opt.Routes.Lookup(ctx, sandboxID); err == nil && g.clusters[route.Cluster] != nil {
			return g.clusters[route.Cluster]
		}
	}
	return g.opt.Clusters[0]
}
