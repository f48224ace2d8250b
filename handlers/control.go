package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

// serveControl carries a call to the role that serves it. Bodies are small JSON
// and are read whole; an answer is looked at before it is passed on, because
// ROCK does not always speak E2B.
func (g *Gateway) serveControl(w http.ResponseWriter, r *http.Request, out Outcome) Outcome {
	op := out.Operation
	who, f, err := g.identify(r, e2bKey)
	if f.Cause != cause.OK {
		out.Err = err
		return refuse(w, r, out, f)
	}
	out.Subject = who.name()
	if op.SandboxID != "" {
		if !routing.ValidSandboxID(op.SandboxID) {
			return refuse(w, r, out, cause.Failure{Cause: cause.BadRequest, Message: routing.ErrInvalidSandboxID.Error()})
		}
		out.SandboxID = op.SandboxID
	}
	if f := g.withinLimits(w, r, who, op); f != nil {
		return refuse(w, r, out, *f)
	}
	if r.ContentLength > g.opt.MaxControlBody {
		return refuse(w, r, out, cause.Failure{Cause: cause.TooLarge})
	}
	body, err := g.readHeld(w, r)
	if err != nil {
		out.Err = err
		return refuse(w, r, out, causeOfBody(r, err))
	}
	if len(body) > 0 {
		if who, f, err = g.identify(r, e2bKey); f.Cause != cause.OK {
			out.Err = err
			return refuse(w, r, out, f)
		}
	}
	begun := out.Trail.now()
	f, err = g.permit(r.Context(), who, op)
	out.Trail.lookedUp(begun)
	if f.Cause != cause.OK {
		out.Err = err
		return refuse(w, r, out, f)
	}
	if op.Name == listCall {
		return g.serveList(w, r, who, out)
	}
	var clusters []*routing.Cluster
	if op.Create {
		made, born, f, err := g.prepareCreate(r.Context(), who, body)
		if f.Cause != cause.OK {
			out.Err = err
			return refuse(w, r, out, f)
		}
		defer born()
		body = made.body
		var placed func()
		if clusters, placed, f, err = g.place(r.Context(), r, who, body); f.Cause != cause.OK {
			out.Err = err
			return refuse(w, r, out, f)
		}
		defer placed()
	}
	ctx, cancel := context.WithTimeout(withTrail(r.Context(), out.Trail), g.opt.ControlTimeout)
	defer cancel()
	if op.Name == killCall || op.Name == pauseCall {
		defer g.opt.Deaths.begin(op.SandboxID)()
	}
	call := &running{cancel: cancelFunc(func(error) { cancel() })}
	g.calls.add(call)
	defer g.calls.remove(call)
	if serve := g.ownCall(r, op); serve != nil {
		c := lifeCall{g: g, ctx: ctx, r: r, who: who, op: op, body: body}
		if answer, ok := serve(&c); ok {
			return c.tell(w, out, answer)
		}
	}

	if !op.Create {
		clusters = g.candidates(ctx, who, op)
	}
	var resp *http.Response
	for _, cluster := range clusters {
		answer, address, err := g.sendControl(ctx, r, who, cluster, op, body)
		var dial *upstream.DialError
		switch {
		case errors.As(err, &dial) && (op.SandboxID != "" || op.Create) && ctx.Err() == nil:
			out.Cluster, out.Err = cluster.Name, err
			continue // another cluster may know the sandbox, or make it
		case err != nil:
			if resp != nil {
				resp.Body.Close()
			}
			out.Cluster, out.Upstream, out.Err = cluster.Name, address, err
			return refuse(w, r, out, controlFailure(r.Context(), ctx, err))
		case resp != nil:
			resp.Body.Close()
		}
		out.Cluster, out.Upstream, resp = cluster.Name, address, answer
		if op.SandboxID == "" || resp.StatusCode != http.StatusNotFound {
			break
		}
	}
	if resp == nil || resp.StatusCode == http.StatusNotFound && out.Err != nil && !op.Create {
		// Nobody knows it, but not everybody could be asked.
		if resp != nil {
			resp.Body.Close()
		}
		return refuse(w, r, out, cause.Failure{Cause: cause.ClusterUnreachable})
	}
	out.Err, out.Status = nil, uint16(resp.StatusCode)
	defer resp.Body.Close()
	return g.answerControl(ctx, w, r, who, resp, out)
}

// candidates are the clusters that may hold what a call is about. With several,
// a sandbox is first looked up; a stopped one has no record any more, so after
// that every cluster is asked until one knows it. A 404 means that nothing was
// done, so asking on is safe for every call.
func (g *Gateway) candidates(ctx context.Context, who *caller, op routing.Operation) []*routing.Cluster {
	all := g.opt.Clusters
	if len(all) == 1 {
		return all
	}
	if who != nil && who.cluster != "" {
		if c := g.clusters[who.cluster]; c != nil {
			return []*routing.Cluster{c} // where its owner was found out
		}
	}
	if op.SandboxID == "" {
		return all[:1]
	}
	if route, _, err := g.opt.Routes.Lookup(ctx, op.SandboxID); err == nil {
		if c := g.clusters[route.Cluster]; c != nil {
			return []*routing.Cluster{c}
		}
	}
	return all
}

// sendControl sends a call to the role that serves it.
func (g *Gateway) sendControl(ctx context.Context, r *http.Request, who *caller, cluster *routing.Cluster, op routing.Operation, body []byte) (*http.Response, string, error) {
	role := cluster.Admin
	if op.Role == routing.ProxyRole {
		role = cluster.Proxy
	}
	return RoleClient{role, g.opt.Upstream}.Do(ctx, func() *http.Request {
		req := outbound(ctx, r, g.controlHop(), trailOf(ctx))
		// The answer must be read, so nobody may compress it.
		delete(req.Header, "Accept-Encoding")
		if who != nil {
			auth.SetTenant(req.Header, who.key.Tenant)
		}
		if op.CreateV2 {
			req.URL.Opaque = "/sandboxes"
		}
		bufferedBody(req, body)
		return req
	})
}

// controlFailure is what a call that got no answer is told.
func controlFailure(client, call context.Context, err error) cause.Failure {
	var dial *upstream.DialError
	switch {
	case client.Err() != nil:
		return cause.Failure{Cause: cause.ClientGone}
	case errors.As(err, &dial):
		return cause.Failure{Cause: cause.ClusterUnreachable}
	case call.Err() != nil:
		return unknownOutcome(cause.Deadline)
	default:
		return cause.Failure{Cause: cause.UpstreamReset, Message: "The connection to the service was lost; the outcome of this call is unknown"}
	}
}

// answerControl passes ROCK's answer on if it is E2B's, and converts it if not.
// ctx is that of the call.
func (g *Gateway) answerControl(ctx context.Context, w http.ResponseWriter, r *http.Request, who *caller, resp *http.Response, out Outcome) Outcome {
	if !knownStatus(resp.StatusCode) {
		return refuse(w, r, out, unknownOutcome(cause.UpstreamInvalid))
	}
	head, more, err := peek(resp)
	held := who != nil || handsOut[out.Operation.Name]
	if err == nil && more && held && resp.StatusCode < 300 {
		head, more, err = ahead(resp, maxDisclosed)
	}
	if err != nil {
		out.Err = err
		return refuse(w, r, out, controlFailure(r.Context(), ctx, err))
	}
	f, converted := convertControl(out.Operation, resp, head, more)
	switch {
	case !held || converted:
	case more:
		f, converted = cause.Failure{Cause: cause.UpstreamInvalid, Message: "The answer is too long"}, true
	case who != nil && resp.StatusCode == http.StatusNotFound && out.SandboxID != "":
		f, converted = noSuchSandbox, true // it was there a moment ago
	}
	if strings.Contains(f.Message, routing.MetadataPrefix) {
		f.Message = "" // a validation error may show what was sent, and with it the gateway's notes
	}
	if converted {
		if out.Operation.ChangesState {
			g.invalidate(out.SandboxID) // who knows
		}
		return refuse(w, r, out, f)
	}
	g.learn(out.Operation, resp.StatusCode, head)
	if held {
		if head, f = g.discloseAnswer(r, who, out.Operation, resp, head); f.Cause != cause.OK {
			return refuse(w, r, out, f)
		}
		resp.Body = io.NopCloser(bytes.NewReader(head))
	}
	answerHeaders(w.Header(), resp)
	who.keepUncached(w.Header())
	if !more && len(head) > 0 {
		// All of it is here: it arrives in one piece, whatever it came in.
		w.Header().Set("Content-Length", strconv.Itoa(len(head)))
	}
	if resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout {
		// Newest Python would repeat it, even a create.
		w.Header().Set("Should-Retry", "false")
	}
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		out.Err = err
		out.End = cause.Truncated
		if r.Context().Err() != nil {
			out.End = cause.ClientGone
		}
		out.Abort = true
	}
	return out
}

// learn keeps the routes true to what a call through this gateway has just
// changed, so that the caller's next data-plane call sees it.
func (g *Gateway) learn(op routing.Operation, status int, head []byte) {
	switch {
	case op.Create && status == http.StatusCreated:
		var created struct {
			SandboxID string `json:"sandboxID"`
		}
		if json.Unmarshal(head, &created) == nil && routing.ValidSandboxID(created.SandboxID) {
			// The id may have been asked for before it existed.
			g.invalidate(created.SandboxID)
		}
	case op.Name == killCall && status == http.StatusNoContent:
		g.opt.Routes.Forget(op.SandboxID, "")
		g.opt.Deaths.tell(op.SandboxID, cause.SandboxGone)
	case op.ChangesState && status < 300:
		g.invalidate(op.SandboxID)
		if op.Name == pauseCall {
			g.opt.Deaths.tell(op.SandboxID, cause.SandboxPaused)
		}
	}
}
