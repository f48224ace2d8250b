package module

import (
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/handlers/cause"
)

// placeholders is the prefix of what [Handler] documents.
const placeholders = "http.e2b."

// record writes down what became of a request: in the access log, in
// placeholders, and when it ended badly in a log line of its own. An Outcome
// holds nothing secret and no header is ever logged here.
func (h *Handler) record(r *http.Request, out *handlers.Outcome) {
	ctx := r.Context()
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		// A closure for all of them: most are never asked for.
		repl.Map(func(key string) (any, bool) { return placeholder(out, key) })
	}
	if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok && h.accessLog {
		extra.Add(zap.Inline((*record)(out))) // each Add costs
	}
	h.complain(r, out)
}

// complain logs a request that the gateway itself had to end. An answer of
// ROCK or of a sandbox that was passed on is no concern of the operator of the
// gateway, whatever it says, and neither is a client that left.
//
// What a client got wrong, and what it learnt about its sandbox, is worth a line
// but nobody's attention: level info.
func (h *Handler) complain(r *http.Request, out *handlers.Outcome) {
	level := zapcore.WarnLevel
	switch out.End {
	case cause.OK, cause.ClientGone:
		return
	case cause.ClientStalled, cause.BadRequest, cause.TooLarge, cause.NoSuchRoute, cause.Reserved, cause.NotOffered, cause.Unauthenticated,
		cause.Forbidden, cause.TrafficTokenMissing, cause.TrafficTokenWrong, cause.HeaderTooLarge, cause.Limit,
		cause.SandboxGone, cause.SandboxExpired, cause.SandboxPaused, cause.SandboxStopped, cause.SandboxStarting:
		level = zapcore.InfoLevel
	case cause.Internal:
		level = zapcore.ErrorLevel
	}
	if entry := h.logger.Check(level, "request ended by the gateway"); entry != nil {
		line := []zapcore.Field{zap.Inline((*record)(out)), zap.String("method", r.Method), zap.String("remote", r.RemoteAddr)}
		if out.Err != nil {
			line = append(line, zap.String("cause", out.Err.Error()))
		}
		entry.Write(line...)
	}
}

// record is an outcome as log fields.
type record handlers.Outcome

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (r *record) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("sandbox_id", r.SandboxID)
	enc.AddString("sandbox_port", portText(r.Port))
	enc.AddString("subject", r.Subject)
	enc.AddString("cluster", r.Cluster)
	enc.AddString("plane", r.Operation.Plane.String())
	enc.AddString("operation", r.Operation.Name)
	enc.AddString("upstream", r.Upstream)
	enc.AddString("end", r.End.String())
	enc.AddString("lookup", r.Lookup.String())
	return nil
}

// portText is a port of a sandbox, "" for none.
func portText(port uint16) string {
	if port == 0 {
		return ""
	}
	return strconv.Itoa(int(port))
}

// placeholder is the value of one placeholder.
func placeholder(out *handlers.Outcome, key string) (any, bool) {
	if len(key) <= len(placeholders) || key[:len(placeholders)] != placeholders {
		return nil, false
	}
	switch key[len(placeholders):] {
	case "sandbox_id":
		return out.SandboxID, true
	case "sandbox_port":
		return portText(out.Port), true
	case "subject":
		return out.Subject, true
	case "cluster":
		return out.Cluster, true
	case "plane":
		return out.Operation.Plane.String(), true
	case "operation":
		return out.Operation.Name, true
	case "upstream":
		return out.Upstream, true
	case "end":
		return out.End.String(), true
	case "lookup":
		return out.Lookup.String(), true
	default:
		return nil, false
	}
}
