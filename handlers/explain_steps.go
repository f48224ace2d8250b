package handlers

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// StepName is one of the decisions that a request meets, in this order.
type StepName string

// The steps.
const (
	// StepRead: can the request be read, in one way only, and is it none that is nobody's?
	StepRead StepName = "read"
	// StepClassify: which call of which plane is it, and does the site serve that?
	StepClassify StepName = "classify"
	// StepTarget: which sandbox, and which port of it? Of the data plane.
	StepTarget StepName = "target"
	// StepCredential: is what it carries a credential at all, good for anything?
	StepCredential StepName = "credential"
	// StepLookup: what does the registry say of the sandbox?
	StepLookup StepName = "lookup"
	// StepAuthorise: is the credential good for this sandbox, or for this call?
	StepAuthorise StepName = "authorise"
	// StepDrain: is the gateway, the sandbox or the cluster taken out of service?
	StepDrain StepName = "drain"
	// StepUpstream: is there a way to the port, or a cluster for the call?
	StepUpstream StepName = "upstream"
	// StepSend: where is it sent?
	StepSend StepName = "send"
)

// StepNames are all steps, in their order.
var StepNames = []StepName{StepRead, StepClassify, StepTarget, StepCredential, StepLookup, StepAuthorise, StepDrain, StepUpstream, StepSend}

// Step is a decision that was made.
type Step struct {
	Name StepName `json:"step"`
	OK   bool     `json:"ok"`
	// Result says what was found, for people.
	Result string `json:"result"`
}

// stopsAt is the step that ends a request by the cause alone, where there is only one
// that can.
var stopsAt = map[cause.Cause]StepName{
	cause.TooLarge:            StepRead,
	cause.HeaderTooLarge:      StepRead,
	cause.Reserved:            StepRead,
	cause.NoSuchRoute:         StepClassify,
	cause.TrafficTokenMissing: StepCredential,
	cause.TrafficTokenWrong:   StepCredential,
	cause.SandboxExpired:      StepLookup,
	cause.SandboxPaused:       StepLookup,
	cause.SandboxStopped:      StepLookup,
	cause.SandboxStarting:     StepLookup,
	cause.SandboxFailed:       StepLookup,
	cause.NotOffered:          StepAuthorise,
	cause.Drain:               StepDrain,
	cause.PortClosed:          StepUpstream,
	cause.ClusterUnreachable:  StepUpstream,
	cause.Internal:            StepUpstream,
}

// stop is the step at which a request was refused, by how far it came.
func (e *Explanation) stop(out *Outcome) StepName {
	if step, ok := stopsAt[out.End]; ok {
		if step == StepCredential && out.Lookup != 0 {
			return StepAuthorise // a sandbox whose creator wants a token
		}
		return step
	}
	data, looked := out.Operation.Plane == routing.DataPlane, out.Lookup != 0
	switch out.End {
	case cause.BadRequest:
		switch {
		case data && out.SandboxID != "":
			return StepCredential // two of them, or a query that can be read in two ways
		case data:
			return StepTarget
		default:
			return StepRead
		}
	case cause.SandboxGone:
		if here := e.Sandbox; here != nil && here.Answer == "here" && here.State == routing.StateRunning.String() {
			return StepAuthorise // it is somebody else's, which the client is not told
		}
		return StepLookup
	case cause.RegistryUnavailable, cause.RouteUnusable:
		if data && out.Cluster != "" {
			return StepUpstream
		}
		return StepLookup
	case cause.Unauthenticated, cause.Forbidden, cause.KeysUnavailable:
		if looked || !data && out.Subject != "" {
			return StepAuthorise
		}
		return StepCredential
	default:
		return StepUpstream
	}
}

// steps tells the way of a request up to where it was refused, if it was.
func (g *Gateway) steps(out *Outcome, e *Explanation, play *rehearsal) (steps []Step, at StepName) {
	if out.End != cause.OK && !e.Sent {
		at = e.stop(out)
	}
	for _, name := range StepNames {
		if name == at {
			return append(steps, Step{name, false, g.refusalAt(name, out, e, play)}), at
		}
		if result := g.passed(name, out, e); result != "" {
			steps = append(steps, Step{name, true, result})
		}
	}
	return steps, ""
}

// passed says what a step has found that lets the request go on, "" for a step that
// the request does not meet.
func (g *Gateway) passed(name StepName, out *Outcome, e *Explanation) string {
	data := out.Operation.Plane == routing.DataPlane
	switch name {
	case StepRead:
		return "the request can be read in one way only"
	case StepClassify:
		if !data && out.Operation.Plane != routing.ControlPlane {
			return ""
		}
		return fmt.Sprintf("%s, a call of the %s plane", out.Operation.Name, out.Operation.Plane)
	case StepTarget:
		if out.SandboxID == "" || !data {
			return ""
		}
		return fmt.Sprintf("port %d of sandbox %s", out.Port, out.SandboxID)
	case StepCredential:
		return g.letIn(out, data)
	case StepLookup:
		if e.Sandbox == nil {
			return ""
		}
		return e.Sandbox.found()
	case StepAuthorise:
		if g.opt.Access == nil || e.Sandbox == nil || out.Subject == "" {
			return ""
		}
		return "it may be used by " + out.Subject
	case StepDrain:
		if !e.Sent {
			return ""
		}
		return "nothing that it needs is taken out of service"
	case StepSend:
		if !e.Sent {
			return "answered by the gateway itself"
		}
		to := e.Tries[0]
		return fmt.Sprintf("to %s (%s), the first of %d", to.Address, to.Role, len(e.Tries))
	default:
		return ""
	}
}

// letIn says who has shown what.
func (g *Gateway) letIn(out *Outcome, data bool) string {
	switch {
	case out.Operation.Plane == routing.NoPlane:
		return ""
	case g.opt.Access == nil:
		return "keys are off: everybody gets in"
	case out.Subject != "" && data:
		return "a credential of, or for a sandbox of, " + out.Subject
	case out.Subject != "":
		return "an API key of " + out.Subject
	case out.SandboxID == "":
		return ""
	default:
		return "no credential that is known is needed so far"
	}
}

// found says what the registry has answered.
func (r *Resolved) found() string {
	switch r.Answer {
	case "here":
		return fmt.Sprintf("here: %s in cluster %s, owned by %s (%s)", r.State, r.Cluster, cmp.Or(r.Owner, "nobody that is known"), r.Lookup)
	case "gone":
		return "gone: the registry has no such sandbox (" + r.Lookup + ")"
	default:
		return "nobody can say: " + r.Error
	}
}

// refusalAt says why the request is refused at a step.
func (g *Gateway) refusalAt(name StepName, out *Outcome, e *Explanation, play *rehearsal) string {
	switch {
	case name == StepLookup && e.Sandbox != nil && g.waits(out.Operation, out.End):
		return fmt.Sprintf("%s; the call would wait for it, for up to %v", e.Sandbox.found(), g.opt.ReadyTimeout)
	case name == StepLookup && e.Sandbox != nil:
		return e.Sandbox.found()
	case name == StepAuthorise && e.Sandbox != nil && errors.Is(out.Err, errNotFound) || name == StepAuthorise && out.End == cause.SandboxGone:
		return fmt.Sprintf("the sandbox is there, and the credential is not good for it: its owner is %s. The client is told that there is none",
			cmp.Or(e.Sandbox.Owner, "not known"))
	case name == StepUpstream && play.unmapped:
		return "the registry tells the sandbox's ports only to who uses one, and was not asked"
	case out.Err != nil:
		return out.End.String() + ": " + out.Err.Error()
	case e.Answer != nil && e.Answer.Message != "":
		return out.End.String() + ": " + e.Answer.Message
	default:
		return out.End.String()
	}
}
