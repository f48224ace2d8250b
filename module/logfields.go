package module

import (
	"strconv"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/routing"
)

// logField is something that the gateway says about a request: a field of its line in
// the access log, of the line about its failure, and a placeholder. It has one of the
// functions.
type logField struct {
	name string
	// says is what stands about it in docs/logs.md and in the documentation of [Handler].
	says   string
	text   func(*handlers.Outcome) string
	number func(*handlers.Outcome) int
	time   func(handlers.Times) time.Duration
}

// logFields are all of them. None holds a secret. What a client can choose in them is
// made of characters that are safe to print.
var logFields = []logField{
	{name: "sandbox_id", says: "The sandbox's id, checked, or empty",
		text: func(o *handlers.Outcome) string { return o.SandboxID }},
	{name: "sandbox_port", says: "The port of the sandbox that was asked for, or empty",
		text: func(o *handlers.Outcome) string { return portText(o.Port) }},
	{name: "subject", says: "Whose key was sent, or whose sandbox was used, or empty",
		text: func(o *handlers.Outcome) string { return o.Subject }},
	{name: "cluster", says: "The cluster that was asked, or empty",
		text: func(o *handlers.Outcome) string { return o.Cluster }},
	{name: "plane", says: "`control`, `data` or `none`",
		text: func(o *handlers.Outcome) string { return o.Operation.Plane.String() }},
	{name: "operation", says: "The call, e.g. `Sandbox.create` or `process.Process/Start`",
		text: func(o *handlers.Outcome) string { return handlers.Clip(o.Operation.Name, handlers.MaxOperation) }},
	{name: "upstream", says: "The address the request was sent to, or empty",
		text: func(o *handlers.Outcome) string { return o.Upstream }},
	{name: "upstream_status", says: "The HTTP status of ROCK's or the sandbox's answer, or 0",
		number: func(o *handlers.Outcome) int { return int(o.Status) }},
	{name: "end", says: "How the request ended, e.g. `ok` or `sandbox_gone`",
		text: func(o *handlers.Outcome) string { return o.End.String() }},
	{name: "lookup", says: "Where the route came from: `cache`, `registry`, `stale` or `none`",
		text: func(o *handlers.Outcome) string { return o.Lookup.String() }},
	{name: "request_id", says: "The request's own name, which is in the header `X-Request-Id` of the answer",
		text: func(o *handlers.Outcome) string { return trailOf(o).RequestID }},
	{name: "trace_id", says: "What other programs call what the request is a part of: the trace-id of `traceparent`, or `eagleeye-traceid`",
		text: func(o *handlers.Outcome) string { return trailOf(o).TraceID }},
	{name: "lookup_duration", says: "How long it took to find out where the sandbox is, and on the control plane whose it is",
		time: func(t handlers.Times) time.Duration { return t.Lookup }},
	{name: "ready_duration", says: "How long the request waited for its sandbox to start",
		time: func(t handlers.Times) time.Duration { return t.Ready }},
	{name: "connect_duration", says: "How long it took to connect to ROCK or the sandbox; 0 on a connection that was there",
		time: func(t handlers.Times) time.Duration { return t.Connect }},
	{name: "first_byte_duration", says: "How long ROCK or the sandbox then took to begin its answer",
		time: func(t handlers.Times) time.Duration { return t.FirstByte }},
}

// noTrail is that of a request that has none.
var noTrail handlers.Trail

func trailOf(o *handlers.Outcome) *handlers.Trail {
	if o.Trail == nil {
		return &noTrail
	}
	return o.Trail
}

// envdPortText is the port that nearly every request asks for.
var envdPortText = strconv.Itoa(routing.EnvdPort)

// portText is a port of a sandbox, "" for none.
func portText(port uint16) string {
	switch port {
	case 0:
		return ""
	case routing.EnvdPort:
		return envdPortText
	}
	return strconv.Itoa(int(port))
}

// record is an outcome as log fields.
type record handlers.Outcome

// MarshalLogObject implements [zapcore.ObjectMarshaler]. The times are left out where
// nobody has taken any.
func (r *record) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	out := (*handlers.Outcome)(r)
	times, timed := out.Trail.Times()
	for i := range logFields {
		switch f := &logFields[i]; {
		case f.text != nil:
			enc.AddString(f.name, f.text(out))
		case f.number != nil:
			enc.AddInt(f.name, f.number(out))
		case timed:
			enc.AddDuration(f.name, f.time(times))
		}
	}
	return nil
}

// placeholders is the prefix of what [Handler] documents.
const placeholders = "http.e2b."

// placeholder is the value of one placeholder.
func placeholder(out *handlers.Outcome, key string) (any, bool) {
	if len(key) <= len(placeholders) || key[:len(placeholders)] != placeholders {
		return nil, false
	}
	for i := range logFields {
		f := &logFields[i]
		if f.name != key[len(placeholders):] {
			continue
		}
		switch {
		case f.text != nil:
			return f.text(out), true
		case f.number != nil:
			return f.number(out), true
		}
		times, timed := out.Trail.Times()
		if !timed {
			return "", true
		}
		return f.time(times), true
	}
	return nil, false
}
