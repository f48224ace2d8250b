package handlers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// Explain answers an operator's question: what would become of this request, and
// why? A second gateway is made of the parts of the first, but for those that act,
// and serves the request as it serves any. There is no second copy of a decision
// that could come to another result than the real one.

// Question is the request that is asked about.
type Question struct {
	// Request is as a server would have read it, with its whole body in memory.
	// It is changed.
	Request *http.Request
	// Planes are those of the site that it is for. 0 means Both.
	Planes Planes
	// Peer is who sends it.
	Peer Peer
	// As, if not "", is a subject: the request is given a credential of its own,
	// which nobody ever sees, and may carry none.
	As string
	// AsOwner is As, with the subject that owns the sandbox.
	AsOwner bool
}

// ErrTwoCredentials is a question with a credential for a request that has one.
var ErrTwoCredentials = errors.New("the request carries a credential: leave it out, or do not say as whom to ask")

// Explanation is the answer to a Question. It names what is inside the deployment and
// is for operators. There is no credential in it.
type Explanation struct {
	// Sent says that the request would be sent on.
	Sent bool `json:"sent"`
	// StopsAt is the name of the step at which it would be refused, "" if it would not.
	StopsAt StepName `json:"stops_at,omitempty"`
	// Cause is why, by the name that logs and metrics have for it: "ok" if it is sent.
	Cause string `json:"cause"`
	// Steps are the decisions in their order, up to the last that is made.
	Steps []Step `json:"steps"`

	Plane     string `json:"plane"`
	Operation string `json:"operation"`
	SandboxID string `json:"sandbox_id,omitempty"`
	Port      uint16 `json:"sandbox_port,omitempty"`
	// Subject is whose credential it is, or whose sandbox.
	Subject string `json:"subject,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// Lookup is where the route comes from.
	Lookup string `json:"lookup"`
	// Sandbox is what is known of the sandbox, whoever asks. Nil: the request names none.
	Sandbox *Resolved `json:"sandbox,omitempty"`
	// Tries are the addresses to which it would be sent, in the order in which they
	// would be tried: the next one when the one before refuses to connect.
	Tries []Try `json:"tries,omitempty"`
	// Answer is what the client would be told, nil if the request is sent.
	Answer *Answer `json:"answer,omitempty"`
}

// Try is one address to which a request would be sent.
type Try struct {
	Cluster string `json:"cluster"`
	// Role is "admin" or "proxy", "sandbox" for one that is dialled itself, and
	// "rocklet" for a port inside it that is reached through ROCK's agent.
	Role string `json:"role"`
	// Address is "host:port".
	Address string `json:"address"`
	// Port is that inside the sandbox, for "rocklet".
	Port uint16 `json:"port,omitempty"`
	// Method and Target are of what would be sent, which may be a call that the gateway
	// makes for the client's. Secrets in the query are left out.
	Method string `json:"method"`
	Target string `json:"target"`
	// Headers are the names of the headers that go along.
	Headers []string `json:"headers"`
}

// Answer is an answer of the gateway's own.
type Answer struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	// Message is what it says, without the framing of its protocol.
	Message string `json:"message"`
}

// Explain answers a question. Nothing is sent to ROCK or a sandbox, nothing counts
// against a limit or as a call, and no route is forgotten. The registry and the store of keys are
// asked as for a request, and what they say is remembered.
//
// Limits are not looked at: to look is to count. A sandbox that is starting is not
// waited for. A registry that tells ports only to who uses the sandbox is not asked for them.
//
// The error is ErrTwoCredentials, or that of the store of keys or the registry when it
// cannot be found out as whom to ask.
func (g *Gateway) Explain(ctx context.Context, q Question) (Explanation, error) {
	if q.Planes == 0 {
		q.Planes = Both
	}
	dry := g.rehearse()
	defer dry.Close()
	r := q.Request.WithContext(ctx)
	if q.As != "" || q.AsOwner {
		if err := dry.lend(r, q); err != nil {
			return Explanation{}, err
		}
	}
	told := answerRecorder{header: http.Header{}}
	var out Outcome
	dry.Serve(&told, r, q.Planes, q.Peer, &out)

	e := Explanation{
		Cause:     cause.OK.String(),
		Plane:     out.Operation.Plane.String(),
		Operation: out.Operation.Name,
		SandboxID: out.SandboxID,
		Port:      out.Port,
		Subject:   out.Subject,
		Cluster:   out.Cluster,
		Lookup:    out.Lookup.String(),
		Tries:     dry.rehearsal.tries(dry, out.Operation.Plane),
	}
	e.Sent = len(e.Tries) > 0
	if out.SandboxID != "" {
		resolved := g.Resolve(ctx, out.SandboxID)
		e.Sandbox = &resolved
	}
	if !e.Sent {
		e.Cause = out.End.String()
		e.Answer = told.answer()
	}
	e.Steps, e.StopsAt = g.steps(&out, &e, dry.rehearsal)
	return e, nil
}

// Resolved is what the registry says of a sandbox, in one of its three answers.
type Resolved struct {
	SandboxID string `json:"sandbox_id"`
	// Answer is "here", "gone", or "unknown" when nobody can say.
	Answer string `json:"answer"`
	// Lookup is where the answer comes from: "cache", "registry", or "stale" for what
	// was known before the registry stopped to answer.
	Lookup string `json:"lookup"`
	// Error is why it is unknown.
	Error string `json:"error,omitempty"`

	Cluster string `json:"cluster,omitempty"`
	// State is starting, running, paused, stopped, expired, deleted, failed or unknown.
	State string `json:"state,omitempty"`
	// Owner is the subject whose sandbox it is, "" when nobody's is known.
	Owner string `json:"owner,omitempty"`
	// OwnerError is why the owner could not be looked up.
	OwnerError string `json:"owner_error,omitempty"`
	// Lifecycle tells the lives of the sandbox apart.
	Lifecycle string `json:"lifecycle,omitempty"`
	// Host is its own address, "" when its record has none that can be used.
	Host string `json:"host,omitempty"`
	// Ports are the ports of Host by those inside the sandbox.
	Ports map[uint16]uint16 `json:"ports,omitempty"`
	// PortsUnknown: the registry tells Ports only when somebody uses one.
	PortsUnknown bool `json:"ports_unknown,omitempty"`
	// Private: its creator wants a token asked for on every port.
	Private bool `json:"private,omitempty"`
	// Problem is why the record cannot be used in full.
	Problem string `json:"problem,omitempty"`
	// Drained: an operator has taken it, or its cluster, out of service.
	Drained bool `json:"drained,omitempty"`
}

// Resolve says what is known of a sandbox, as a request for it would find it.
func (g *Gateway) Resolve(ctx context.Context, sandboxID string) Resolved {
	route, source, err := g.opt.Routes.Lookup(ctx, sandboxID)
	return g.resolved(ctx, sandboxID, route, source, err)
}

// ResolveFresh is Resolve by a registry that is asked now, whatever is remembered.
func (g *Gateway) ResolveFresh(ctx context.Context, sandboxID string) Resolved {
	route, err := g.opt.Routes.Fresh(ctx, sandboxID)
	return g.resolved(ctx, sandboxID, route, routing.SourceRegistry, err)
}

func (g *Gateway) resolved(ctx context.Context, id string, route *routing.Route, source routing.Source, err error) Resolved {
	r := Resolved{SandboxID: id, Answer: "here", Lookup: source.String()}
	switch {
	case errors.Is(err, routing.ErrGone):
		r.Answer = "gone"
		return r
	case err != nil:
		r.Answer, r.Error = "unknown", err.Error()
		return r
	}
	r.describe(route)
	r.Drained = g.opt.Drains.closes(route)
	if a := g.opt.Access; a != nil {
		r.Owner, err = a.subjectOf(ctx, route.Owner)
	} else {
		r.Owner = route.Owner.Subject
	}
	if err != nil {
		r.OwnerError = err.Error()
	}
	return r
}

// describe takes what a record says.
func (r *Resolved) describe(route *routing.Route) {
	r.Cluster, r.State, r.Lifecycle = route.Cluster, route.State.String(), route.Lifecycle
	r.PortsUnknown, r.Private, r.Problem = route.PortsUnknown, route.Private, route.Problem
	if route.Host.IsValid() {
		r.Host = route.Host.String()
	}
	if route.Ports.Len() > 0 {
		r.Ports = make(map[uint16]uint16, route.Ports.Len())
		for inside, outside := range route.Ports.All() {
			r.Ports[inside] = outside
		}
	}
}

// maxAnswer is how much of an answer is kept, in bytes. The gateway's own are short.
const maxAnswer = 64 << 10

// answerRecorder is a client that only listens.
type answerRecorder struct {
	header http.Header
	status int
	body   strings.Builder
}

// Header implements [http.ResponseWriter].
func (a *answerRecorder) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answerRecorder) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *answerRecorder) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if room := maxAnswer - a.body.Len(); room > 0 {
		a.body.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// answer is what was heard, nil if nothing was.
func (a *answerRecorder) answer() *Answer {
	if a.status == 0 {
		return nil
	}
	return &Answer{Status: a.status, ContentType: a.header.Get("Content-Type"), Message: a.message()}
}

// message is the text in what was heard: the gateway's own failures are JSON objects
// with a field message, in an EndStream below error, and for gRPC in headers.
func (a *answerRecorder) message() string {
	body := a.body.String()
	if text := a.header.Get("Grpc-Message"); body == "" && text != "" {
		return text
	}
	var told struct {
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if at := strings.IndexByte(body, '{'); at >= 0 && json.Unmarshal([]byte(body[at:]), &told) == nil {
		return cmp.Or(told.Message, told.Error.Message)
	}
	if _, text, ok := strings.Cut(body, "grpc-message: "); ok { // gRPC-Web has its trailers in the body
		text, _, _ = strings.Cut(text, "\r\n")
		return text
	}
	return strings.ToValidUTF8(body, "")
}
