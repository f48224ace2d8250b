package handlers

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/splice"
	"github.com/caddy-e2b/gateway/routing"
)

// maxDisclosed is the longest answer of the control plane, in bytes, where
// access is on: it is held whole, to take out what its reader must not see.
const maxDisclosed = 16 << 20

// discloser turns an answer of ROCK's into one for the caller: with the tokens
// that are good here, and without the gateway's note of the owner.
type discloser struct {
	g   *Gateway
	who *caller
	op  routing.Operation
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
	if !d.node(answer, d.who.subject, 0) {
		return nil
	}
	return answer.Bytes()
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
	for i := range n.Len() {
		child, ok := n.Child(i)
		switch {
		case !ok:
		case n.Name(i) == "metadata":
			d.metadata(child)
			n.Set(i, child.Bytes())
		default:
			if !d.node(child, subject, depth+1) {
				return false
			}
			n.Set(i, child.Bytes())
		}
	}
	if n.IsObject() {
		d.tokens(n, subject)
	}
	return true
}

// metadata takes out of it what is not the client's. Only admins see where
// sandboxes are.
func (d discloser) metadata(n *splice.Node) {
	for i := range n.Len() {
		switch name := n.Name(i); {
		case strings.HasPrefix(name, routing.MetadataPrefix), name == routing.MetadataAddress && !d.who.admin():
			n.Remove(i)
		}
	}
}

// The tokens in a sandbox's description, as E2B calls them.
var tokenFields = []struct {
	name string
	kind auth.Kind
}{{"envdAccessToken", auth.AccessToken}, {"trafficAccessToken", auth.TrafficToken}}

// handsOut are the calls that give the caller a sandbox to work with.
var handsOut = map[string]bool{
	"Sandbox.create": true, "Sandbox.connect": true, "Sandbox.resume": true, "Sandbox.get_info": true,
}

// tokens puts the tokens that are good here in the place of ROCK's, which may be
// the API key of whoever made the sandbox.
func (d discloser) tokens(n *splice.Node, subject string) {
	id := ""
	if i := n.Find("sandboxID"); i >= 0 {
		id, _ = n.Text(i)
	}
	for _, field := range tokenFields {
		token := d.token(field.kind, id, subject)
		given := false
		for i := range n.Len() {
			switch {
			case n.Name(i) != field.name:
			case token == "":
				n.Remove(i)
			case field.kind == auth.TrafficToken && string(n.Value(i)) == "null":
				// The sandbox's other ports are open to everybody.
			default:
				given = true
				n.Set(i, splice.Quote(token))
			}
		}
		if field.kind == auth.AccessToken && !given && token != "" && handsOut[d.op.Name] {
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
func (g *Gateway) discloseAnswer(who *caller, op routing.Operation, resp *http.Response, body []byte) ([]byte, cause.Failure) {
	if resp.StatusCode >= 300 {
		// It may show what was sent, and with it the note.
		if bytes.Contains(body, []byte(reservedMetadata)) {
			return nil, cause.Failure{Cause: causeOfStatus(resp.StatusCode), Status: resp.StatusCode}
		}
		return body, cause.Failure{}
	}
	if body = (discloser{g, who, op}).disclose(body); body == nil {
		return nil, unknownOutcome(cause.UpstreamInvalid)
	}
	return body, cause.Failure{}
}
