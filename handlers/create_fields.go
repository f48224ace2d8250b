package handlers

import (
	"fmt"

	"github.com/caddy-e2b/gateway/handlers/splice"
)

// The one rule for the fields of a create, as the README has it ("Creating
// sandboxes"). ROCK takes eight fields and refuses a create with any other
// (contract of ROCK, 3.10).
//
//   - What ROCK takes passes, if it can be kept.
//   - What ROCK does not take and what asks for nothing is dropped: SDKs send fields
//     with the value that means "as ever".
//   - What asks for something that cannot be kept is refused by name: a sandbox that
//     silently lacks what its creator relies on, such as a closed network, is worse
//     than none.
//   - What nobody here knows passes if it asks for something, and ROCK judges it.

// wishes are what a create asks for that the gateway keeps itself.
type wishes struct {
	private bool // network.allowPublicTraffic is false
	pause   bool // autoPause is true
}

// rocks are the fields that ROCK takes as they are.
var rocks = map[string]bool{"templateID": true, "timeout": true, "metadata": true, "envVars": true, "secure": true}

// cannot are the reasons why a field is refused that asks for something.
var cannot = map[string]string{
	"allow_internet_access": "sandboxes cannot be kept from the internet",
	"autoPause":             "a paused sandbox could not be resumed",
	"autoResume.enabled":    "a paused sandbox is resumed by connect() only",
	"network":               "it has no rules for what goes in and out of a sandbox",
	"mcp":                   "its sandboxes have no MCP server",
	"iam":                   "its sandboxes have no identities",
	"volumeMounts":          "it has no volumes",
}

// refusal is the error for a field, of which reason is the reason's name.
func refusal(field, reason string) error {
	return fmt.Errorf("%s is not offered by this deployment: %s", field, cannot[reason])
}

// judge decides about a field: whether ROCK gets it, or the create is refused.
// resumes reports that a paused sandbox can be resumed.
func (w *wishes) judge(name string, value []byte, resumes bool) (keep bool, err error) {
	if switches[name] && !isSwitch(value) {
		return false, errSwitch(name)
	}
	switch name {
	case "allow_internet_access":
		if string(value) == "false" {
			return false, refusal(name, name)
		}
		return true, nil
	case "autoPause":
		w.pause = string(value) == "true"
		if w.pause && !resumes {
			return false, refusal(name, name)
		}
		return true, nil
	case "autoPauseMemory":
		// Without autoPause it says nothing (E2B API). With it, Python 2.34.0 always
		// sends true, so it does not show whether anybody relies on memory being
		// kept.
		return false, nil
	case "autoResume":
		return true, w.autoResume(value)
	case "network":
		return false, w.network(value)
	case "mcp":
		// A server that needs no settings is asked for by its name: {"duckduckgo":{}}.
		if servers, ok := take(value); ok && servers.Len() > 0 {
			return false, refusal(name, name)
		}
		fallthrough
	case "iam", "volumeMounts":
		if asksForNothing(value, 0) {
			return false, nil
		}
		return false, refusal(name, name)
	default:
		return rocks[name] || !asksForNothing(value, 0), nil
	}
}

// switches are the fields that are true or false, and that the gateway must have read
// as ROCK does.
var switches = map[string]bool{"allow_internet_access": true, "autoPause": true}

// isSwitch reports what has one reading. ROCK also takes "no", 0 and the like for
// true or false (Pydantic's lax mode).
func isSwitch(value []byte) bool {
	s := string(value)
	return s == "true" || s == "false" || s == "null"
}

func errSwitch(name string) error { return fmt.Errorf("%s must be true or false", name) }

// autoResume judges {"enabled": …}.
func (w *wishes) autoResume(value []byte) error {
	resume, ok := take(value)
	if !ok {
		return nil
	}
	for i := range resume.Len() {
		switch {
		case resume.Name(i) != "enabled":
		case !isSwitch(resume.Value(i)):
			return errSwitch("autoResume.enabled")
		case string(resume.Value(i)) == "true":
			return refusal("autoResume.enabled", "autoResume.enabled")
		}
	}
	return nil
}

// network judges the rules for a sandbox's network. Whether its ports are open to
// everybody is the gateway's to say, and the rest nobody's here.
func (w *wishes) network(value []byte) error {
	rules, ok := take(value)
	if !ok {
		if asksForNothing(value, 0) {
			return nil
		}
		return refusal("network", "network")
	}
	for i := range rules.Len() {
		name, rule := rules.Name(i), rules.Value(i)
		switch {
		case name == "allowPublicTraffic" && string(rule) == "false":
			w.private = true
		case name == "allowPublicTraffic" && string(rule) == "true":
			// As ever, unless the operator wants a token asked for.
		case !asksForNothing(rule, 0):
			return refusal("network."+printable(name), "network")
		}
	}
	return nil
}

// object is a JSON object that is only looked at.
type object struct{ *splice.Node }

// take is the object that a value is, if it is one.
func take(value []byte) (object, bool) {
	n, ok := splice.Parse(value)
	return object{n}, ok && n.IsObject()
}

// value is that of a member, nil when there is none.
func (o object) value(name string) []byte {
	if i := o.Find(name); i >= 0 {
		return o.Value(i)
	}
	return nil
}

// maxNothing is how deep a value is looked into for something that it asks for.
const maxNothing = 8

// asksForNothing reports null, false, "", [], {} and objects of nothing but such.
func asksForNothing(value []byte, depth int) bool {
	switch string(value) {
	case "null", "false", `""`:
		return true
	}
	n, ok := splice.Parse(value)
	if !ok || depth > maxNothing {
		return false
	}
	if !n.IsObject() {
		return n.Len() == 0
	}
	for i := range n.Len() {
		if !asksForNothing(n.Value(i), depth+1) {
			return false
		}
	}
	return true
}

// printable is a name that a client has made up, fit to be told back to it.
func printable(name string) string {
	const longest = 40
	if len(name) > longest {
		name = name[:longest]
	}
	for i := range len(name) {
		if c := name[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' {
			return "…"
		}
	}
	return name
}
