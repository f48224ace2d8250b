package module

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/handlers/cause"
)

// outcome is memory for what becomes of a request, and for its trail if there is an
// access log to read it: in one piece.
func (h *Handler) outcome() *handlers.Outcome {
	if !h.accessLog {
		return new(handlers.Outcome)
	}
	both := new(struct {
		out   handlers.Outcome
		trail handlers.Trail
	})
	both.out.Trail = &both.trail
	return &both.out
}

// record writes down what became of a request: in the access log, in
// placeholders, and when it ended badly in a log line of its own. An Outcome
// holds nothing secret and no header is ever logged here.
func (h *Handler) record(r *http.Request, out *handlers.Outcome) {
	ctx := r.Context()
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		// A closure for all of them: most are never asked for.
		repl.Map(func(key string) (any, bool) { return placeholder(out, key) })
	}
	if h.accessLog {
		if h.sampling > 1 && healthy(out) && rand.Uint32N(h.sampling) != 0 {
			caddyhttp.SetVar(ctx, caddyhttp.LogSkipVar, true)
		} else if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
			extra.Add(zap.Inline((*record)(out))) // each Add costs
		}
	}
	h.complain(r, out)
}

// healthy reports a request of which there are many and nobody wants to read: it was
// answered whole, by somebody who has not failed.
func healthy(out *handlers.Outcome) bool {
	return out.End == cause.OK && out.Status < http.StatusInternalServerError
}

// maxCause is the longest error in a line about a failure, in bytes.
const maxCause = 2 << 10

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
	entry := h.logger.Check(level, "request ended by the gateway")
	if entry == nil {
		return
	}
	now := time.Now()
	omitted, ok := h.said.admit(out.End, now)
	if !ok {
		return
	}
	out.Identify(r)
	line := []zapcore.Field{zap.Inline((*record)(out)), zap.String("method", handlers.Clip(r.Method, handlers.MaxMethod)), zap.String("remote", r.RemoteAddr)}
	if began, ok := caddyhttp.GetVar(r.Context(), "start_time").(time.Time); ok {
		line = append(line, zap.Duration("duration", now.Sub(began)))
	}
	if out.Err != nil {
		line = append(line, zap.String("cause", handlers.Clip(out.Err.Error(), maxCause)))
	}
	if omitted > 0 {
		line = append(line, zap.Uint64("omitted", omitted))
	}
	entry.Write(line...)
}
