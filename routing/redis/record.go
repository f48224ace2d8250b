package redis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/caddy-e2b/gateway/routing"
)

// parseRecord reads what a key holds: an object, or an array of one as JSON.GET
// with a path answers. Every field may be missing (rock writes partial records
// when two of its processes race); only the state is needed. A record that does
// not say whose it is is nobody's.
func parseRecord(sandboxID string, record []byte, names Fields, keyOf func(string) ([32]byte, bool)) (*routing.Route, error) {
	fields, err := object(record)
	if err != nil {
		return nil, err
	}
	if id, ok := routing.JSONString(fields[names.SandboxID]); ok && id != "" && id != sandboxID {
		return nil, fmt.Errorf("%w: it is about another sandbox", routing.ErrMalformed)
	}
	state, err := stateOf(fields[names.State])
	if err != nil {
		return nil, err
	}
	var metadata map[string]json.RawMessage
	_ = json.Unmarshal(fields[fieldMetadata], &metadata) // what cannot be read holds no notes
	r := &routing.Route{SandboxID: sandboxID, State: state, Owner: ownerOf(fields, metadata, keyOf)}
	// Whatever the note says: it is there for one reason only.
	_, r.Private = metadata[routing.MetadataTraffic]
	var problems []string
	note := func(problem string) {
		if problem != "" {
			problems = append(problems, problem)
		}
	}

	if state == routing.StateStarting {
		if why, failed := routing.FailedPhase(fields[fieldPhases]); failed {
			r.State = routing.StateFailed
			note(why)
		}
	}
	host, problem := hostOf(fields[names.HostIP])
	r.Host = host
	note(problem)
	ports, problem := routing.ParsePortMapping(fields[names.PortMapping])
	r.Ports = ports
	note(problem)
	r.Problem = strings.Join(problems, "; ")
	// The id is in it because records without times and addresses exist: two
	// of them must not share connections.
	r.Lifecycle = routing.LifecycleOf(
		sandboxID, scalar(fields[names.CreateTime]), scalar(fields[names.StartTime]),
		scalar(fields[names.HostIP]), ports.String(),
	)
	return r, nil
}

// Where ROCK keeps the rest (rock/actions/sandbox/sandbox_info.py).
const (
	fieldPhases        = "phases"
	fieldMetadata      = "metadata"
	fieldAuthorization = "rock_authorization_encrypted"
)

// ownerOf is whose sandbox it is: what the gateway noted, else what ROCK did.
func ownerOf(fields, metadata map[string]json.RawMessage, keyOf func(string) ([32]byte, bool)) routing.Owner {
	if noted, ok := routing.JSONString(metadata[routing.MetadataOwner]); ok {
		if owner := routing.ParseOwner(noted); owner != (routing.Owner{}) {
			return owner
		}
	}
	sealed, ok := routing.JSONString(fields[fieldAuthorization])
	if !ok || keyOf == nil {
		return routing.Owner{}
	}
	key, ok := keyOf(sealed)
	if !ok {
		return routing.Owner{}
	}
	return routing.Owner{Key: key}
}

// object returns the fields of a record, as they are.
func object(record []byte) (map[string]json.RawMessage, error) {
	record = bytes.Trim(record, " \t\r\n") // what else is space elsewhere is none in JSON
	if len(record) > 0 && record[0] == '[' {
		var elements []json.RawMessage
		if err := json.Unmarshal(record, &elements); err != nil {
			return nil, fmt.Errorf("%w: it is not JSON", routing.ErrMalformed)
		}
		switch len(elements) {
		case 0:
			return nil, routing.ErrGone
		case 1:
			record = elements[0]
		default:
			return nil, fmt.Errorf("%w: it is an array of %d", routing.ErrMalformed, len(elements))
		}
	}
	if empty(record) {
		return nil, routing.ErrGone
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(record, &fields); err != nil {
		// Not the error's text: it may quote the record, which holds secrets.
		return nil, fmt.Errorf("%w: it is not a JSON object", routing.ErrMalformed)
	}
	if len(fields) == 0 {
		return nil, routing.ErrGone
	}
	return fields, nil
}

// empty reports null, and an array of nothing: a document [] as JSON.GET with
// a path answers it.
func empty(value []byte) bool {
	if string(value) == "null" {
		return true
	}
	var elements []json.RawMessage
	return len(value) > 0 && value[0] == '[' && json.Unmarshal(value, &elements) == nil && len(elements) == 0
}

// stateOf reads rock's names of states: rock/actions/sandbox/response.py.
func stateOf(field json.RawMessage) (routing.State, error) {
	if len(field) == 0 || string(field) == "null" {
		return 0, fmt.Errorf("%w: it has no state", routing.ErrMalformed)
	}
	name, ok := routing.JSONString(field)
	if !ok {
		return 0, fmt.Errorf("%w: its state is not a string", routing.ErrMalformed)
	}
	switch strings.ToLower(name) {
	case "pending":
		return routing.StateStarting, nil
	case "running":
		return routing.StateRunning, nil
	case "stopped", "archiving", "archived":
		return routing.StatePaused, nil
	case "deleted":
		return routing.StateDeleted, nil
	default:
		return 0, fmt.Errorf("%w: its state %.20q is not known", routing.ErrMalformed, name)
	}
}

// hostOf reads an address. Missing, null, "" and "default" are rock's ways to
// say that there is none (yet).
func hostOf(field json.RawMessage) (netip.Addr, string) {
	if len(field) == 0 || string(field) == "null" {
		return netip.Addr{}, ""
	}
	s, ok := routing.JSONString(field)
	switch {
	case !ok:
		return netip.Addr{}, "host_ip is not a string"
	case s == "" || s == "default":
		return netip.Addr{}, ""
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, "host_ip is not an IP address"
	}
	return addr.Unmap(), ""
}

// scalar is a string's content, or a number as it is written.
func scalar(field json.RawMessage) string {
	if s, ok := routing.JSONString(field); ok {
		return s
	}
	if string(field) == "null" {
		return ""
	}
	return string(field)
}
