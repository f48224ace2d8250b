package handlers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/splice"
	"github.com/caddy-e2b/gateway/routing"
)

// A create of an SDK becomes one that ROCK understands: it gets the two fields that
// ROCK requires and newer SDKs leave out, loses what ROCK would refuse although it
// asks for nothing, and is refused when it asks for what nobody here can give
// (create_fields.go). The gateway notes in the metadata what it must know of the
// sandbox later. Every other byte stays as it is.

// creation is a create that may go to ROCK.
type creation struct {
	body []byte
	// id is what the creator wants the sandbox to be called, or "".
	id string
	// private: the creator wants a token asked for on every port.
	private bool
}

// prepareCreate makes the body of a create what ROCK needs. born must be called
// when ROCK has answered.
func (g *Gateway) prepareCreate(ctx context.Context, who *caller, body []byte) (_ creation, born func(), _ cause.Failure, _ error) {
	born = func() {}
	made, err := translateCreate(body, createRules{owner: who.owner(), lifetime: g.opt.DefaultLifetime, resumes: g.resumes()})
	switch {
	case err != nil:
		return creation{}, nil, cause.Failure{Cause: cause.BadRequest, Message: err.Error()}, err
	case g.shadows(made.id):
		return creation{}, nil, idShadows, nil
	case g.hosts != nil && strings.ToLower(made.id) != made.id:
		return creation{}, nil, idInCapitals, nil
	case who == nil:
		return made, born, cause.Failure{}, nil
	}
	who.private = made.private
	if made.id == "" {
		return made, born, cause.Failure{}, nil
	}
	born, free := g.opt.Deaths.births.begin(made.id, who.key.Subject)
	if !free {
		return creation{}, nil, idTaken, nil
	}
	if f, err := g.permitID(ctx, who, made.id); f.Cause != cause.OK {
		born()
		return creation{}, nil, f, err
	}
	return made, born, cause.Failure{}, nil
}

// idShadows is what somebody is told who chooses an id at whose hosts the sandbox of
// another id is found.
var idShadows = cause.Failure{Cause: cause.BadRequest, Message: "metadata: an id in " + chosenID + " must not end in -rock, which old SDKs append to ids"}

// idInCapitals is what somebody is told who chooses an id that no host name can have.
// Somebody else's id, in lower case, would get its visitors.
var idInCapitals = cause.Failure{Cause: cause.BadRequest, Message: "metadata: an id in " + chosenID + " must be in lower case, as host names are"}

// shadows reports an id that an SDK from before 2.0 makes of another one: a sandbox
// with it would get the visitors of that, and its own would go there once it is gone.
func (g *Gateway) shadows(id string) bool {
	_, other := routing.Target{SandboxID: id}.WithoutClientID()
	return other && g.hosts != nil
}

// owner is who will own what the caller makes, the zero Owner without access.
func (c *caller) owner() routing.Owner {
	if c == nil {
		return routing.Owner{}
	}
	return routing.Owner{Subject: c.key.Subject, Key: c.key.Digest}
}

// resumes reports that a paused sandbox can be resumed, in whatever cluster it is
// made.
func (g *Gateway) resumes() bool {
	for _, c := range g.opt.Clusters {
		if !c.Restarts {
			return false
		}
	}
	return true
}

// createRules are what the translation of a create depends on.
type createRules struct {
	owner    routing.Owner // noted, unless it is the zero Owner
	lifetime time.Duration // of a sandbox whose creator names none
	resumes  bool          // a paused sandbox can be resumed here
}

var (
	errCreateBody = errors.New("the body must be a JSON object")
	errMetadata   = errors.New("metadata must be an object of strings")
)

// translateCreate translates the body of a create. Its errors are for the client.
func translateCreate(body []byte, rules createRules) (creation, error) {
	create, ok := splice.Parse(body)
	if !ok || !create.IsObject() {
		return creation{}, errCreateBody
	}
	var asked wishes
	seen := make(map[string]bool, create.Len())
	for i := range create.Len() {
		name := create.Name(i)
		if seen[name] {
			return creation{}, fmt.Errorf("%s is given twice", printable(name))
		}
		seen[name] = true
		keep, err := asked.judge(name, create.Value(i), rules.resumes)
		if err != nil {
			return creation{}, err
		}
		if !keep {
			create.Remove(i)
		}
	}
	id, err := annotate(create, rules.owner, asked)
	if err != nil {
		return creation{}, err
	}
	if !seen["timeout"] {
		create.Add("timeout", strconv.AppendInt(nil, int64((rules.lifetime+time.Second-1)/time.Second), 10))
	}
	return creation{create.Bytes(), id, asked.private}, nil
}

// chosenID is the metadata key by which a creator chooses the sandbox's id
// (rock/common/constants.py).
const chosenID = "ap-sandbox-id"

// annotate checks the metadata of a create and puts the gateway's notes into it,
// making it if there is none. id is what the creator wants the sandbox to be called.
func annotate(create *splice.Node, owner routing.Owner, asked wishes) (id string, err error) {
	at := create.Find("metadata")
	metadata, ok := splice.Parse([]byte("{}"))
	if at >= 0 {
		metadata, ok = create.Child(at)
	}
	if !ok || !metadata.IsObject() {
		return "", errMetadata
	}
	if id, err = readMetadata(metadata); err != nil {
		return "", err
	}
	note := func(key, value string) { metadata.Add(key, splice.Quote(value)) }
	if owner.Subject != "" {
		note(routing.MetadataOwner, owner.Metadata())
		note(routing.MetadataSubject, owner.Subject)
		if at := create.Find("templateID"); at >= 0 {
			if template, ok := create.Text(at); ok {
				note(routing.MetadataTemplate, template)
			}
		}
	}
	if asked.private {
		note(routing.MetadataTraffic, routing.TrafficPrivate)
	}
	if asked.pause {
		note(routing.MetadataOnTimeout, routing.OnTimeoutPause)
	}
	if at < 0 {
		create.Add("metadata", metadata.Bytes())
	} else {
		create.Set(at, metadata.Bytes())
	}
	return id, nil
}

// readMetadata refuses what two readers could read in two ways, since the notes must
// be what ROCK finds, and what is the gateway's or ROCK's to say.
func readMetadata(metadata *splice.Node) (id string, err error) {
	seen := make(map[string]bool, metadata.Len())
	for i := range metadata.Len() {
		name := metadata.Name(i)
		value, ok := metadata.Text(i)
		switch {
		case !ok:
			return "", errMetadata
		case seen[name]:
			return "", errors.New("metadata holds a key twice")
		case routing.Reserves(name):
			return "", fmt.Errorf("metadata: keys that begin with %s are the gateway's own", routing.MetadataPrefix)
		case name == routing.MetadataAddress:
			return "", errors.New("metadata: the address of a sandbox is ROCK's to say")
		case name == chosenID && !routing.ValidSandboxID(value):
			return "", fmt.Errorf("metadata: %s: %w", chosenID, routing.ErrInvalidSandboxID)
		case name == chosenID:
			id = value
		}
		seen[name] = true
	}
	return id, nil
}
