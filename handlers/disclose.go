package handlers

import (
	"bytes"
	"net/http"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/splice"
	"github.com/caddy-e2b/gateway/routing"
)

// maxDisclosed is the longest answer of the control plane, in bytes, that is held
// whole to take out what its reader must not see: every one where access is on,
// else those that show a sandbox.
const maxDisclosed = 16 << 20

// discloser turns an answer of ROCK's into one for the caller: with the tokens and
// the domain that are good here, and without the gateway's notes.
type discloser struct {
	g      *Gateway
	who    *caller // nil: access is off
	op     routing.Operation
	domain string // of the sandbox's hosts, for this caller, or ""
}

// disclose returns the body for the caller. Nil: it cannot be understood, and so
// cannot be shown.
func (d discloser) disclose(body []byte) []byte {
	if len(body) == 0 {
		return []byte{}
	}
	answer, ok := splice.Parse(body)
	if !ok {
		return nil
	}
	if !d.node(answer, d.who.about(), 0) {
		return nil
	}
	if answer.IsObject() && handsOut[d.op.Name] {
		d.reachable(answer)
	}
	return answer.Bytes()
}

// reachable tells where the sandbox has hosts. ROCK's own domain would lead around
// the gateway.
func (d discloser) reachable(n *splice.Node) {
	given := false
	for i := range n.Len() {
		switch {
		case n.Name(i) != "domain":
		case d.domain != "":
			given = true
			n.Set(i, splice.Quote(d.domain))
		case string(n.Value(i)) != "null":
			n.Remove(i)
		}
	}
	if d.domain != "" && !given && n.Find("sandboxID") >= 0 {
		n.Add("domain", splice.Quote(d.domain))
	}
}

// maxDepth is how deep in an answer a sandbox is looked for. E2B's are at most
// two levels down; what is deeper than this is not understood.
const maxDepth = 32

// node looks for sandboxes in an object or an array. They are the subject's. It
// returns false when it could not look everywhere.
func (d discloser) node(n *splice.Node, subject string, depth int) bool {
	if depth > maxDepth {
		return false
	}
	private := d.who != nil && d.who.private && depth == 0
	for i := range n.Len() {
		child, ok := n.Child(i)
		switch {
		case !ok:
		case n.Name(i) == "metadata":
			private = d.metadata(child) || private
			n.Set(i, child.Bytes())
		default:
			if !d.node(child, subject, depth+1) {
				return false
			}
			n.Set(i, child.Bytes())
		}
	}
	if n.IsObject() {
		d.tokens(n, subject, private)
	}
	return true
}

// metadata takes out of it what is not the client's, and reports a note that a token
// is asked for on every port. Whatever the note says: registries take it so.
func (d discloser) metadata(n *splice.Node) (private bool) {
	for i := range n.Len() {
		name := n.Name(i)
		private = private || name == routing.MetadataTraffic
		if routing.Reserves(name) || name == routing.MetadataAddress && !d.g.opt.ShowAddress {
			n.Remove(i)
		}
	}
	return private
}

// The tokens in a sandbox's description, as E2B calls them.
var tokenFields = []struct {
	name string
	kind auth.Kind
}{{"envdAccessToken", auth.AccessToken}, {"trafficAccessToken", auth.TrafficToken}}

// handsOut are the calls that give the caller a sandbox to work with.
var handsOut = map[string]bool{
	createCall: true, connectCall: true, resumeCall: true, infoCall: true,
}

// tokens puts the tokens that are good here in the place of ROCK's, which may be
// the API key of whoever made the sandbox.
func (d discloser) tokens(n *splice.Node, subject string, private bool) {
	if d.who == nil {
		return // they are the clients' own keys
	}
	id := ""
	if i := n.Find("sandboxID"); i >= 0 {
		id, _ = n.Text(i)
	}
	for _, field := range tokenFields {
		token := d.token(field.kind, id, subject)
		asked := field.kind == auth.AccessToken || private || !d.who.access.PublicTraffic
		if !asked {
			token = ""
		}
		given := false
		for i := range n.Len() {
			switch {
			case n.Name(i) != field.name:
			case token == "" && field.kind == auth.TrafficToken && string(n.Value(i)) == "null":
				// No token is asked for, or the caller cannot have one.
			case token == "":
				n.Remove(i)
			default:
				given = true
				n.Set(i, splice.Quote(token))
			}
		}
		if !given && token != "" && handsOut[d.op.Name] && (field.kind == auth.AccessToken || d.op.Name != infoCall) {
			n.Add(field.name, splice.Quote(token))
		}
	}
}

// token is the token for a sandbox of the subject's, "" when there is none for
// this caller.
func (d discloser) token(kind auth.Kind, id, subject string) string {
	switch {
	case !d.who.key.Scopes.Has(auth.ScopeData), !routing.ValidSandboxID(id):
		return ""
	case subject == "" && !d.who.access.AllowUnowned:
		return "" // it would open nothing
	case d.op.SandboxID != "" && id != d.op.SandboxID:
		return "" // the answer is about another sandbox than the question
	case d.who.access.Tokens != nil:
		return d.who.access.Tokens.Mint(kind, id, subject)
	case kind == auth.AccessToken:
		return d.who.secret
	default:
		return "" // an API key is nothing to show to visitors
	}
}

// discloseAnswer makes ROCK's answer, all of which is in body, one for the
// caller.
func (g *Gateway) discloseAnswer(r *http.Request, who *caller, op routing.Operation, resp *http.Response, body []byte) ([]byte, cause.Failure) {
	if resp.StatusCode >= 300 {
		// It may show what was sent, and with it the note.
		if bytes.Contains(body, []byte(routing.MetadataPrefix)) {
			return nil, cause.Failure{Cause: causeOfStatus(resp.StatusCode), Status: resp.StatusCode}
		}
		return body, cause.Failure{}
	}
	if op.Name == infoCall && !inLife(body) {
		return nil, noSuch(who, op.SandboxID)
	}
	if body = (discloser{g, who, op, g.domainFor(r)}).disclose(body); body == nil {
		return nil, unknownOutcome(cause.UpstreamInvalid)
	}
	return body, cause.Failure{}
}

// inLife reports a description whose state is one that the SDKs know. Python raises
// a bare ValueError for any other. Without a state it is no description.
func inLife(body []byte) bool {
	sandbox, ok := splice.Parse(body)
	if !ok || !sandbox.IsObject() {
		return true // not for this to judge
	}
	at := sandbox.Find("state")
	if at < 0 {
		return true
	}
	state, _ := sandbox.Text(at)
	return state == "running" || state == "paused"
}
