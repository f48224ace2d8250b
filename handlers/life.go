package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/splice"
	"github.com/caddy-e2b/gateway/routing"
)

// ROCK's E2B API has no connect, resume, pause and refresh. The gateway makes them
// of what ROCK has: the description of a sandbox and its timeout, and of its own API
// stop and restart, where the cluster's operator lets the gateway use those.

// lifeCall is such a call on its way.
type lifeCall struct {
	g    *Gateway
	ctx  context.Context // of the call
	r    *http.Request
	who  *caller
	op   routing.Operation
	body []byte

	route   *routing.Route
	cluster *routing.Cluster
	// acted: ROCK has done something for the call, so that no failure may say that
	// nothing was done.
	acted bool
}

// lifeAnswer is what the client is told: a failure, unless its cause is cause.OK.
type lifeAnswer struct {
	status int
	body   []byte // JSON, or nothing
	failed cause.Failure
	err    error // for logs
}

// ownCall is how the gateway answers the call itself, nil when it is ROCK's to
// answer. So is one for which it returns false.
func (g *Gateway) ownCall(r *http.Request, op routing.Operation) func(*lifeCall) (lifeAnswer, bool) {
	if r.Method != http.MethodPost {
		return nil
	}
	switch op.Name {
	case connectCall, resumeCall:
		return (*lifeCall).connect
	case refreshCall:
		return (*lifeCall).refresh
	case pauseCall:
		for _, c := range g.opt.Clusters {
			if c.Stops {
				return (*lifeCall).pause
			}
		}
	}
	return nil
}

// tell answers the client.
func (c *lifeCall) tell(w http.ResponseWriter, out Outcome, a lifeAnswer) Outcome {
	if c.route != nil {
		out.Cluster = c.route.Cluster
	}
	out.Err = a.err
	if a.failed.Cause != cause.OK {
		if c.acted && a.failed.Cause.Status() == http.StatusServiceUnavailable {
			a.failed = unknownOutcome(cause.UpstreamInvalid)
		}
		return refuse(w, c.r, out, a.failed)
	}
	c.who.keepUncached(w.Header())
	if len(a.body) > 0 {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	if _, err := w.Write(a.body); err != nil && len(a.body) > 0 {
		out.Err, out.End, out.Abort = err, cause.ClientGone, true
	}
	return out
}

// failed is an answer that tells a failure.
func failed(f cause.Failure, err error) lifeAnswer { return lifeAnswer{failed: f, err: err} }

// locate looks the sandbox up afresh, because what is remembered may be the life
// before, and tells how it stands.
func (c *lifeCall) locate() (cause.Cause, error) {
	begun := time.Now()
	route, err := c.g.opt.Routes.Fresh(c.ctx, c.op.SandboxID)
	why := causeOfLookup(c.r.Context(), route, err)
	if err != nil {
		if why == cause.SandboxGone && c.who != nil {
			c.g.level(c.ctx, begun)
		}
		return why, err
	}
	c.route, c.cluster = route, c.g.clusters[route.Cluster]
	if c.cluster == nil {
		return cause.Internal, errUnknownCluster
	}
	if why == cause.SandboxStopped || c.who == nil || c.who.admin() {
		return why, behind(why, route, nil)
	}
	// The id may have become another's since the call was let in.
	switch owner, err := c.who.access.subjectOf(c.ctx, route.Owner); {
	case err != nil:
		return cause.KeysUnavailable, err
	case owner != c.who.key.Subject && !(owner == "" && c.who.access.AllowUnowned):
		c.g.level(c.ctx, begun)
		return cause.SandboxGone, errForeign
	}
	return why, nil
}

// standing is the answer to a call that needs another state than the sandbox is in.
func (c *lifeCall) standing(why cause.Cause, err error) lifeAnswer {
	f := cause.Failure{Cause: why, SandboxID: c.op.SandboxID}
	switch why {
	case cause.SandboxGone, cause.SandboxExpired, cause.SandboxFailed:
		f = noSuch(c.who, c.op.SandboxID)
	case cause.SandboxPaused:
		f.Status = http.StatusConflict
	}
	return failed(f, err)
}

// sandbox is ROCK's description of one (E2B API, SandboxDetail).
type sandbox struct {
	raw   []byte
	endAt time.Time
}

// describe asks the admin role for the description of the sandbox.
func (c *lifeCall) describe() (sandbox, *lifeAnswer) {
	resp, answer := c.ask(http.MethodGet, "", nil)
	if answer != nil {
		return sandbox{}, answer
	}
	var detail struct {
		SandboxID string `json:"sandboxID"`
		EndAt     string `json:"endAt"`
	}
	err := json.Unmarshal(resp, &detail)
	end, late := time.Parse(time.RFC3339, detail.EndAt)
	if err != nil || late != nil || detail.SandboxID != c.op.SandboxID || !inLife(resp) {
		a := failed(unknownOutcome(cause.UpstreamInvalid), errDescription)
		return sandbox{}, &a
	}
	return sandbox{resp, end}, nil
}

var errDescription = errors.New("ROCK's description of the sandbox cannot be understood")

// ask makes a call of ROCK's E2B API about the sandbox and returns the body of the
// answer, or else what the client is told.
func (c *lifeCall) ask(method, tail string, body []byte) ([]byte, *lifeAnswer) {
	resp, err := c.g.adminOf(c.cluster).ask(c.ctx, method, "/sandboxes/"+c.op.SandboxID+tail, body)
	if err != nil {
		a := failed(controlFailure(c.r.Context(), c.ctx, err), err)
		return nil, &a
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxDisclosed))
	if err != nil {
		a := failed(controlFailure(c.r.Context(), c.ctx, err), err)
		return nil, &a
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	switch f, converted := convertControl(c.op, resp, answer, false); {
	case converted:
		a := failed(f, nil)
		return nil, &a
	case resp.StatusCode == http.StatusNotFound:
		a := failed(noSuch(c.who, c.op.SandboxID), errContradicted)
		return nil, &a
	case resp.StatusCode >= 300:
		a := failed(unknownOutcome(cause.UpstreamInvalid), nil)
		return nil, &a
	}
	return answer, nil
}

// errContradicted is that ROCK does not know a sandbox, or not as one that runs, that
// the registry has just called running.
var errContradicted = errors.New("ROCK contradicts the registry")

// hand makes of a description what connect and create answer.
func (c *lifeCall) hand(s sandbox, status int) lifeAnswer {
	detail, ok := splice.Parse(s.raw)
	if !ok || !detail.IsObject() {
		return failed(unknownOutcome(cause.UpstreamInvalid), errDescription)
	}
	handed, _ := splice.Parse([]byte("{}"))
	for _, name := range []string{"sandboxID", "templateID", "alias", "clientID", "envdVersion", "metadata"} {
		if at := detail.Find(name); at >= 0 {
			handed.Add(name, detail.Value(at))
		}
	}
	// The metadata is there for its notes alone: E2B does not tell it here.
	d := discloser{c.g, c.who, c.op, c.g.domainFor(c.r)}
	told, ok := splice.Parse(d.disclose(handed.Bytes()))
	if !ok {
		return failed(unknownOutcome(cause.UpstreamInvalid), errDescription)
	}
	if at := told.Find("metadata"); at >= 0 {
		told.Remove(at)
	}
	if key := c.r.Header.Get(auth.HeaderAPIKey); c.who == nil && key != "" {
		told.Add("envdAccessToken", splice.Quote(key)) // as ROCK does at a create
	}
	return lifeAnswer{status: status, body: told.Bytes()}
}

// setTimeout tells ROCK to give the sandbox so many seconds from now on.
func (c *lifeCall) setTimeout(seconds int64) *lifeAnswer {
	_, answer := c.ask(http.MethodPost, "/timeout", fmt.Appendf(nil, `{"timeout":%d}`, seconds))
	return answer
}

// seconds reads a number of seconds out of a body that may be empty: a whole number
// from 0 to the largest that ROCK takes.
func (c *lifeCall) seconds(field string) (int64, *lifeAnswer) {
	asked := int64((c.g.opt.DefaultLifetime + time.Second - 1) / time.Second)
	if len(bytes.TrimSpace(c.body)) == 0 {
		return asked, nil
	}
	fields, ok := take(c.body)
	if !ok {
		a := failed(cause.Failure{Cause: cause.BadRequest, Message: errCreateBody.Error()}, nil)
		return 0, &a
	}
	value := fields.value(field)
	if value == nil || string(value) == "null" {
		return asked, nil
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		a := failed(cause.Failure{Cause: cause.BadRequest, Message: field + " must be a whole number of seconds from 0 to 2147483647"}, err)
		return 0, &a
	}
	return n, nil
}
