package handlers

import (
	"bytes"
	"context"
	"net/http"
	"sync"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/splice"
	"github.com/caddy-e2b/gateway/routing"
)

// maxDisclosed is the longest answer of the control plane, in bytes, where
// access is on: it is held whole, to take out what its reader must not see. A
// list of 10,000 sandboxes is about 5 MB.
const maxDisclosed = 16 << 20

// discloser turns an answer of ROCK's into one for the caller: with the tokens
// that are good here, without the gateway's note of the owner, and in a list
// without everybody else's sandboxes.
type discloser struct {
	g   *Gateway
	who *caller
	op  routing.Operation
}

// disclose returns the body for the caller. Nil: it cannot be understood, and so
// cannot be shown.
func (d discloser) disclose(ctx context.Context, body []byte) []byte {
	if len(body) == 0 {
		return []byte{}
	}
	answer, ok := splice.Parse(body)
	if !ok {
		return nil
	}
	switch {
	case reachOf(d.op) != reachMany:
		d.node(answer, d.who.subject)
	case answer.IsObject():
		return nil
	default:
		d.list(ctx, answer)
	}
	return answer.Bytes()
}

// node looks for sandboxes in an object or an array, of which fork has some one
// level down. They are the subject's.
func (d discloser) node(n *splice.Node, subject string) {
	for i := range n.Len() {
		child, ok := n.Child(i)
		switch {
		case !ok:
		case n.Name(i) == "metadata":
			d.metadata(child)
			n.Set(i, child.Bytes())
		default:
			d.node(child, subject)
			n.Set(i, child.Bytes())
		}
	}
	if n.IsObject() {
		d.tokens(n, subject)
	}
}

// metadata takes out of it what is not the client's, and returns the owner that
// the gateway has noted there. Only admins see where sandboxes are.
func (d discloser) metadata(n *splice.Node) (owner routing.Owner) {
	for i := range n.Len() {
		switch n.Name(i) {
		case routing.MetadataOwner:
			note, _ := n.Text(i)
			owner = routing.ParseOwner(note)
			n.Remove(i)
		case routing.MetadataAddress:
			if !d.who.admin() {
				n.Remove(i)
			}
		}
	}
	return owner
}

// The tokens in a sandbox's description, as E2B calls them.
var tokenFields = []struct {
	name string
	kind auth.Kind
}{{"envdAccessToken", auth.AccessToken}, {"trafficAccessToken", auth.TrafficToken}}

// handsOut are the calls that give the caller a sandbox to work with.
var handsOut = map[string]bool{
	"Sandbox.create": true, "Sandbox.connect": true, "Sandbox.resume": true, "Sandbox.fork": true,
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
	case !d.who.key.Scopes.Has(auth.ScopeData), !routing.ValidSandboxID(id), subject == "":
		return ""
	case d.op.SandboxID != "" && id != d.op.SandboxID && d.op.Name != "Sandbox.fork":
		return "" // the answer is about another sandbox than the question
	case d.who.access.Tokens != nil:
		return d.who.access.Tokens.Mint(kind, id, subject)
	case kind == auth.AccessToken:
		return d.who.secret
	default:
		return "" // an API key is nothing to show to visitors
	}
}

// maxListLookups is how many owners of one list are looked up at a time.
const maxListLookups = 8

// list takes everybody else's sandboxes out, and those of which nobody can say
// whose they are.
func (d discloser) list(ctx context.Context, list *splice.Node) {
	type entry struct {
		node  *splice.Node
		owner string // "": not the caller's to see
	}
	entries := make([]entry, list.Len())
	places := make(chan struct{}, maxListLookups)
	var wg sync.WaitGroup
	for i := range list.Len() {
		e := &entries[i]
		item, ok := list.Child(i)
		if !ok || !item.IsObject() {
			continue
		}
		e.node = item
		var owner routing.Owner
		if at := item.Find("metadata"); at >= 0 {
			if metadata, ok := item.Child(at); ok {
				owner = d.metadata(metadata)
			}
		}
		if owner.Subject != "" {
			e.owner = d.visible(owner.Subject)
			continue
		}
		id := ""
		if at := item.Find("sandboxID"); at >= 0 {
			id, _ = item.Text(at)
		}
		places <- struct{}{}
		wg.Go(func() {
			e.owner = d.ownerOf(ctx, id)
			<-places
		})
	}
	wg.Wait()
	for i, e := range entries {
		if e.owner == "" {
			list.Remove(i)
			continue
		}
		d.node(e.node, e.owner)
		list.Set(i, e.node.Bytes())
	}
}

// visible is the owner of a sandbox that the caller may see, else "".
func (d discloser) visible(owner string) string {
	if owner == d.who.key.Subject || d.who.admin() {
		return owner
	}
	return ""
}

// ownerOf is visible for a sandbox whose owner ROCK's list does not tell.
func (d discloser) ownerOf(ctx context.Context, id string) string {
	route, _, err := d.g.opt.Routes.Lookup(ctx, id)
	if err != nil && !d.who.admin() {
		return ""
	}
	owner := ""
	if err == nil {
		owner, err = d.who.access.subjectOf(ctx, route.Owner)
	}
	switch {
	case owner != "":
		return d.visible(owner)
	case d.who.admin(), err == nil && d.who.access.AllowUnowned:
		return d.who.key.Subject
	default:
		return ""
	}
}

// discloseAnswer makes ROCK's answer, all of which is in body, one for the
// caller.
func (g *Gateway) discloseAnswer(ctx context.Context, who *caller, op routing.Operation, resp *http.Response, body []byte) ([]byte, cause.Failure) {
	if resp.StatusCode >= 300 {
		// It may show what was sent, and with it the note.
		if bytes.Contains(body, []byte(reservedMetadata)) {
			return nil, cause.Failure{Cause: causeOfStatus(resp.StatusCode), Status: resp.StatusCode}
		}
		return body, cause.Failure{}
	}
	if body = (discloser{g, who, op}).disclose(ctx, body); body == nil {
		return nil, unknownOutcome(cause.UpstreamInvalid)
	}
	if !who.admin() {
		delete(resp.Header, "X-Total-Running") // everybody's
	}
	return body, cause.Failure{}
}
