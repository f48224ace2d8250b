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

// maxDisclosed is the longest answer of the control plane, in bytes, that is held
// whole to take out what its reader must not see: every one where access is on,
// else those that show sandboxes. A list of 10,000 sandboxes is about 5 MB.
const maxDisclosed = 16 << 20

// shows reports a call whose answer shows sandboxes, and so what the gateway has
// noted with them.
func shows(op routing.Operation) bool { return handsOut[op.Name] || op.Name == listCall }

// discloser turns an answer of ROCK's into one for the caller: with the tokens and
// the domain that are good here, without the gateway's notes, and in a list without
// everybody else's sandboxes.
type discloser struct {
	g      *Gateway
	who    *caller // nil: access is off
	op     routing.Operation
	domain string // of the sandbox's hosts, for this caller, or ""
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
		if !d.node(answer, d.who.about(), 0) {
			return nil
		}
		if answer.IsObject() && handsOut[d.op.Name] {
			d.reachable(answer)
		}
	case answer.IsObject():
		return nil
	case d.who == nil:
		if !d.node(answer, "", 0) {
			return nil
		}
	default:
		d.list(ctx, answer)
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
			_, noted := d.metadata(child)
			private = private || noted
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

// metadata takes out of it what is not the client's, and returns what the gateway
// has noted there: the owner, and whether a token is asked for on every port.
func (d discloser) metadata(n *splice.Node) (owner routing.Owner, private bool) {
	for i := range n.Len() {
		name := n.Name(i)
		note, _ := n.Text(i)
		switch {
		case name == routing.MetadataOwner:
			owner = routing.ParseOwner(note)
		case name == routing.MetadataTraffic:
			private = note == routing.TrafficPrivate
		}
		if reserved(name) || name == routing.MetadataAddress && !d.g.opt.ShowAddress {
			n.Remove(i)
		}
	}
	return owner, private
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

const (
	// listLookupsAtOnce is how many owners of one list are looked up at a time.
	listLookupsAtOnce = 8
	// maxListLookups is how many are looked up in all. They are sandboxes that
	// were made past the gateway; what comes after is shown to nobody.
	maxListLookups = 1000
)

// list takes everybody else's sandboxes out, and those of which nobody can say
// whose they are.
func (d discloser) list(ctx context.Context, list *splice.Node) {
	type entry struct {
		node  *splice.Node
		owner string
		shown bool
	}
	entries := make([]entry, list.Len())
	places := make(chan struct{}, listLookupsAtOnce)
	lookups := 0
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
				owner, _ = d.metadata(metadata)
			}
		}
		if owner.Subject != "" {
			e.owner, e.shown = owner.Subject, d.visible(owner.Subject)
			continue
		}
		id := ""
		if at := item.Find("sandboxID"); at >= 0 {
			id, _ = item.Text(at)
		}
		if lookups++; lookups > maxListLookups {
			continue
		}
		places <- struct{}{}
		wg.Go(func() {
			e.owner, e.shown = d.ownerOf(ctx, id)
			<-places
		})
	}
	wg.Wait()
	for i, e := range entries {
		if !e.shown || !d.node(e.node, e.owner, 0) {
			list.Remove(i)
			continue
		}
		list.Set(i, e.node.Bytes())
	}
}

// visible reports whether the caller may see the sandboxes of an owner.
func (d discloser) visible(owner string) bool {
	return owner == d.who.key.Subject || d.who.admin()
}

// ownerOf is who owns a sandbox of which ROCK's list does not tell it, and whether
// the caller may see it.
func (d discloser) ownerOf(ctx context.Context, id string) (owner string, shown bool) {
	route, _, err := d.g.opt.Routes.Lookup(ctx, id)
	if err == nil {
		owner, err = d.who.access.subjectOf(ctx, route.Owner)
	}
	if owner != "" {
		return owner, d.visible(owner)
	}
	return "", d.who.admin() || err == nil && d.who.access.AllowUnowned
}

// discloseAnswer makes ROCK's answer, all of which is in body, one for the
// caller.
func (g *Gateway) discloseAnswer(ctx context.Context, r *http.Request, who *caller, op routing.Operation, resp *http.Response, body []byte) ([]byte, cause.Failure) {
	if resp.StatusCode >= 300 {
		// It may show what was sent, and with it the note.
		if bytes.Contains(body, []byte(reservedMetadata)) {
			return nil, cause.Failure{Cause: causeOfStatus(resp.StatusCode), Status: resp.StatusCode}
		}
		return body, cause.Failure{}
	}
	if op.Name == infoCall && !inLife(body) {
		return nil, noSuch(who, op.SandboxID)
	}
	if body = (discloser{g, who, op, g.domainFor(r)}).disclose(ctx, body); body == nil {
		return nil, unknownOutcome(cause.UpstreamInvalid)
	}
	if who != nil && !who.admin() {
		delete(resp.Header, "X-Total-Running") // everybody's
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
