package module

import (
	"context"
	"log/slog"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap/exp/zapslog"
)

// outlivingLog writes to the default log of the config that is current at the
// time of writing. Shared parts outlive the config they came with, and the
// files that its log was written to are closed by then.
type outlivingLog struct {
	// derive are the WithAttrs and WithGroup that were asked for, in order.
	derive []func(slog.Handler) slog.Handler
}

func (l outlivingLog) current() slog.Handler {
	var h slog.Handler = zapslog.NewHandler(caddy.Log().Core(), zapslog.WithName(name))
	for _, f := range l.derive {
		h = f(h)
	}
	return h
}

// Enabled implements [slog.Handler].
func (l outlivingLog) Enabled(ctx context.Context, level slog.Level) bool {
	return l.current().Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (l outlivingLog) Handle(ctx context.Context, record slog.Record) error {
	return l.current().Handle(ctx, record)
}

// WithAttrs implements [slog.Handler].
func (l outlivingLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.with(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements [slog.Handler].
func (l outlivingLog) WithGroup(group string) slog.Handler {
	return l.with(func(h slog.Handler) slog.Handler { return h.WithGroup(group) })
}

func (l outlivingLog) with(f func(slog.Handler) slog.Handler) outlivingLog {
	return outlivingLog{append(l.derive[:len(l.derive):len(l.derive)], f)}
}
