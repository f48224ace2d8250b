package handlers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/websocket"
	"github.com/caddy-e2b/gateway/routing"
)

// proof is what a call of the data plane has shown that it belongs to the
// sandbox. It is taken in two steps, so that whoever shows nothing good learns
// nothing, and costs the registry nothing: examine looks at the request alone,
// and compare at the owner of the sandbox.
type proof struct {
	kind   proofKind
	claim  auth.Claim      // of proofToken
	key    *auth.Key       // of proofKey
	signed *signedFileCall // of proofSignature
}

type proofKind uint8

const (
	// 0: nobody asks for one.
	_ proofKind = iota
	// proofVisitor: nobody asks for one, unless the sandbox is private.
	proofVisitor
	// proofToken: a token that was made here for the sandbox's id. There is,
	// or was, such a sandbox, and the client knows that.
	proofToken
	// proofKey: an API key of somebody. It says nothing about the sandbox.
	proofKey
	// proofSignature: a signature that nobody can check without the owner.
	proofSignature
)

// isShown reports a credential, good or not.
func (p proof) isShown() bool { return p.kind > proofVisitor }

type signedFileCall struct {
	url auth.SignedURL
	op  auth.FileOperation
}

// What a client is told of its credential. No text depends on whether there is
// such a sandbox.
var (
	tokenMissing = cause.Failure{Cause: cause.Unauthenticated,
		Message: "The header X-Access-Token is missing: the sandbox's access token is required"}
	tokenWrong = cause.Failure{Cause: cause.Unauthenticated,
		Message: "The access token in the header X-Access-Token is not valid for this sandbox"}
	tokenTwice = cause.Failure{Cause: cause.BadRequest,
		Message: "The header X-Access-Token must be sent at most once, with one value"}
	signatureMissing = cause.Failure{Cause: cause.Unauthenticated,
		Message: "The sandbox's access token in the header X-Access-Token, or a signed URL, is required"}
	signatureWrong = cause.Failure{Cause: cause.Unauthenticated,
		Message: "The signature of the URL is not valid"}
	signatureExpired = cause.Failure{Cause: cause.Unauthenticated,
		Message: "The signature of the URL has expired"}
	signatureUnknown = cause.Failure{Cause: cause.Unauthenticated,
		Message: "This gateway cannot check signed URLs: the access token in the header X-Access-Token is required"}
	queryUnreadable = cause.Failure{Cause: cause.BadRequest,
		Message: "The query of the URL cannot be read in one way only"}
)

// examine looks at what a request carries. It asks no registry. The failure's
// cause is cause.OK when the request may go on to compare; err is for logs.
func (a *Access) examine(r *http.Request, op routing.Operation, target routing.Target) (proof, cause.Failure, error) {
	switch {
	case a == nil:
		return proof{}, cause.Failure{}, nil
	case isApp(op):
		return a.examineVisitor(r, target)
	}
	token, err := auth.Sole(r.Header, auth.HeaderAccessToken)
	switch {
	case err == nil:
		return a.examineToken(r.Context(), token, target.SandboxID)
	case !errors.Is(err, auth.ErrNotSent):
		return proof{}, tokenTwice, err
	case websocket.Requested(r):
		// What follows ends with one answer.
	case op.Name == healthCall && !a.PrivateHealth && justAsks(r):
		return proof{}, cause.Failure{}, nil
	case op.Name == filesCall:
		return a.examineSignature(r)
	}
	return proof{}, tokenMissing, err
}

// justAsks reports a request that can bring nothing to a sandbox: whoever has no
// token may ask whether it runs, and do no more.
func justAsks(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.ContentLength == 0
}

func (a *Access) examineToken(ctx context.Context, token, sandboxID string) (proof, cause.Failure, error) {
	if a.Tokens != nil {
		claim, ok := a.Tokens.Check(auth.AccessToken, token, sandboxID)
		if !ok {
			return proof{}, tokenWrong, a.whyWrong(auth.AccessToken, token, errTokenWrong)
		}
		return proof{kind: proofToken, claim: claim}, cause.Failure{}, nil
	}
	key, err := a.known(ctx, token)
	switch {
	case errors.Is(err, auth.ErrUnknownKey):
		return proof{}, tokenWrong, err
	case err != nil:
		return proof{}, causeOfKeys(ctx), err
	case !key.Scopes.Has(auth.ScopeData):
		return proof{}, cause.Failure{Cause: cause.Forbidden}, errScope
	}
	return proof{kind: proofKey, key: key}, cause.Failure{}, nil
}

var (
	errTokenWrong = errors.New("the access token was not made here for this sandbox")
	errOtherKey   = errors.New("the token names a token key that this gateway does not have")
	errScope      = errors.New("the API key lacks the scope data")
	errVisitor    = errors.New("the sandbox is private, and nothing was shown")
	errForeign    = errors.New("the sandbox belongs to somebody else, or to nobody that is known")
	// errNotFound is what the log has of both: logs are read by more people
	// than may know whose a sandbox is.
	errNotFound = errors.New("there is no such sandbox for this credential")
)

// whyWrong is what the log has of a token that opens nothing: wrong, or that its key is
// missing here.
func (a *Access) whyWrong(kind auth.Kind, token string, wrong error) error {
	if a.Tokens.MadeElsewhere(kind, token) {
		return errOtherKey
	}
	return wrong
}

// causeOfKeys is why the store of keys has not answered.
func causeOfKeys(ctx context.Context) cause.Failure {
	if ctx.Err() != nil {
		return cause.Failure{Cause: cause.ClientGone}
	}
	return cause.Failure{Cause: cause.KeysUnavailable}
}

func (a *Access) examineSignature(r *http.Request) (proof, cause.Failure, error) {
	op, ok := auth.FileOperationOf(r.Method)
	if !ok {
		return proof{}, tokenMissing, auth.ErrNotSent
	}
	// The query that is sent on, and no other reading of it.
	url, err := auth.ParseSignedURL(exactURL(r).RawQuery, time.Now())
	switch {
	case errors.Is(err, auth.ErrNoSignature):
		return proof{}, signatureMissing, err
	case a.Tokens == nil:
		return proof{}, signatureUnknown, err
	case errors.Is(err, auth.ErrQuery):
		return proof{}, queryUnreadable, err
	case errors.Is(err, auth.ErrSignatureExpired):
		return proof{}, signatureExpired, err
	case err != nil:
		return proof{}, signatureWrong, err
	}
	return proof{kind: proofSignature, signed: &signedFileCall{url, op}}, cause.Failure{}, nil
}

// lookup finds the route of a call that was examined and holds it against the
// proof. The route is one to go by when the failure's cause is cause.OK. A
// sandbox of somebody else and one that does not exist look the same to the
// client and in the log, and take the same time. That is so for a good token,
// too: its sandbox may have gone, and somebody else's come under the same id.
func (g *Gateway) lookup(ctx context.Context, p proof, sandboxID string) (*routing.Route, routing.Source, cause.Failure, error) {
	var begun time.Time
	if p.isShown() {
		begun = time.Now()
	}
	asker := g.opt.Access.asker(p)
	route, source, err := g.opt.Routes.LookupFor(ctx, asker, sandboxID)
	f, why := g.opt.Access.compare(ctx, p, sandboxID, route, err)
	if errors.Is(why, errForeign) && source != routing.SourceRegistry {
		// Only a registry that was asked may say "gone", and the id may be
		// another's than it was: what is remembered decides against nobody.
		source = routing.SourceRegistry
		route, err = g.opt.Routes.FreshFor(ctx, asker, sandboxID)
		f, why = g.opt.Access.compare(ctx, p, sandboxID, route, err)
	}
	if p.isShown() && (errors.Is(why, errForeign) || errors.Is(why, routing.ErrGone)) {
		g.level(ctx, begun)
		// It is the registry that has said so, now or a moment ago.
		return nil, routing.SourceRegistry, f, errNotFound
	}
	return route, source, f, why
}

// nameOf is whose sandbox was let in to, for logs. The store remembers who it is:
// it has just been asked.
func (a *Access) nameOf(ctx context.Context, p proof, route *routing.Route) string {
	switch {
	case a == nil, !p.isShown():
		return ""
	case p.kind == proofKey:
		return p.key.Subject
	}
	subject, _ := a.subjectOf(ctx, route.Owner)
	return subject
}

// asker is who has shown p, to the registry.
func (a *Access) asker(p proof) routing.Asker {
	if a != nil && (!p.isShown() || p.kind == proofSignature) {
		return routing.Stranger
	}
	return routing.Known
}

// compare holds a proof against what the registry has answered of the sandbox.
func (a *Access) compare(ctx context.Context, p proof, sandboxID string, route *routing.Route, err error) (cause.Failure, error) {
	f := cause.Failure{Cause: causeOfLookup(ctx, route, err), SandboxID: sandboxID}
	switch {
	case p.kind == proofVisitor && err == nil && route.Private:
		return trafficTokenMissing, errVisitor
	case a == nil || !p.isShown():
		return f, err
	}
	if err != nil {
		return p.unanswered(f), err
	}
	if route.State == routing.StateStopped && route.Owner == (routing.Owner{}) {
		// There is no record, and nobody could say what became of the sandbox.
		// That is said of ids that never existed, too.
		if p.kind == proofSignature {
			f.Cause = cause.RegistryUnavailable
		}
		return f, nil
	}
	subject, err := a.subjectOf(ctx, route.Owner)
	switch {
	case err != nil:
		return causeOfKeys(ctx), err
	case a.admits(p, sandboxID, subject):
		return f, nil
	default:
		f.Cause = cause.SandboxGone
		return p.unanswered(f), errForeign
	}
}

// unanswered is what is told of a sandbox that the client gets no route of.
func (p proof) unanswered(f cause.Failure) cause.Failure {
	switch {
	case p.kind == proofSignature && f.Cause == cause.SandboxGone:
		return signatureWrong
	case p.kind != proofToken && f.Cause == cause.RouteUnusable:
		// That there is a record is not theirs to know.
		f.Cause = cause.RegistryUnavailable
	}
	return f
}

// admits reports whether the proof is good for a sandbox of the subject, "" for
// nobody's known.
func (a *Access) admits(p proof, sandboxID, subject string) bool {
	switch p.kind {
	case proofToken:
		if subject == "" {
			return a.AllowUnowned
		}
		return p.claim.By(subject)
	case proofKey:
		switch {
		case p.key.Scopes.Has(auth.ScopeAdmin):
			return true
		case subject == "":
			return a.AllowUnowned
		}
		return p.key.Subject == subject
	case proofSignature:
		if subject == "" && !a.AllowUnowned {
			return false
		}
		return a.Tokens.Signed(p.signed.url, p.signed.op, sandboxID, subject)
	default:
		return false
	}
}
