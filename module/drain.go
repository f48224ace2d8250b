package module

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-e2b/gateway/handlers"
)

// defaultDrain is the grace period when neither the http app nor the app e2b
// says how long it is.
const defaultDrain = 30 * time.Second

// departure is the going away of the process. Caddy tells modules about a
// reload and about an exit with the same calls; caddy.Exiting tells them apart.
var departure exit

// exit drains every gateway of the process, those of replaced configs too, once.
type exit struct {
	mu       sync.Mutex
	deadline time.Time // zero before it begins
	gateways map[*handlers.Gateway]struct{}
	drains   sync.WaitGroup
}

// attend makes a gateway part of the exit, until leave is called.
func (e *exit) attend(g *handlers.Gateway) (leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gateways == nil {
		e.gateways = map[*handlers.Gateway]struct{}{}
	}
	e.gateways[g] = struct{}{}
	if !e.deadline.IsZero() {
		go drain(g, e.deadline) // of no call that anybody waits for
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.gateways, g)
	}
}

// all are the gateways that have, or may have, calls running.
func (e *exit) all() []*handlers.Gateway {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.gateways))
}

// draining reports that the process is going away.
func (e *exit) draining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.deadline.IsZero()
}

// begin starts to drain. Only the first call counts.
func (e *exit) begin(grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.deadline.IsZero() {
		return
	}
	e.deadline = time.Now().Add(grace)
	caddy.Log().Named(name).Info("draining: new calls are refused, running ones go on", zap.Duration("grace", grace))
	deadline := e.deadline
	for g := range e.gateways {
		e.drains.Go(func() { drain(g, deadline) })
	}
	all.Range(func(c, _ any) bool {
		// Answers say "Connection: close" from now on. Idle connections, those of
		// HTTP/2 too, are closed at once.
		c.(*connections).server.SetKeepAlivesEnabled(false)
		return true
	})
}

// drain drains one gateway.
func drain(g *handlers.Gateway, deadline time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if err := g.Drain(ctx, handlers.PlanDrain(time.Until(deadline))); err != nil {
		caddy.Log().Named(name).Error("calls were still running at the end of the grace period", zap.Error(err))
	}
}

// Drain ends the work of every gateway of the process in the protocols of its
// calls, as on an exit, and returns when the last is over or grace has passed.
// It is for programs that embed Caddy: when Caddy itself handles the signals it
// drains by itself. What is loaded serves nothing afterwards; a config that is
// loaded later does.
func Drain(grace time.Duration) {
	departure.complete(context.Background(), grace)
	departure.mu.Lock()
	defer departure.mu.Unlock()
	departure.deadline = time.Time{}
}

// complete waits until the gateways are drained and the connections of the
// listener wrapper closed. What is left when ctx or the grace period ends is
// cut.
func (e *exit) complete(ctx context.Context, grace time.Duration) {
	e.begin(grace)
	e.mu.Lock()
	deadline := e.deadline
	e.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	drained := make(chan struct{})
	go func() {
		e.drains.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-ctx.Done():
	}
	var closing sync.WaitGroup
	all.Range(func(c, _ any) bool {
		closing.Go(func() { c.(*connections).retire(ctx) })
		return true
	})
	closing.Wait()
}

// drainOnExit drains when a server begins to shut down because the process
// exits: after shutdown_delay, and when the server has stopped to accept.
func drainOnExit(ctx caddy.Context, server *caddyhttp.Server) {
	server.RegisterOnShutdown(func() {
		if caddy.Exiting() {
			departure.begin(gracePeriod(ctx))
		}
	})
}

// gracePeriod is how long the process has to exit. It must not be asked for
// while ctx is being provisioned.
func gracePeriod(ctx caddy.Context) time.Duration {
	if app, err := ctx.AppIfConfigured("http"); err == nil {
		if period := app.(*caddyhttp.App).GracePeriod; period > 0 {
			return time.Duration(period)
		}
	}
	if app, err := ctx.AppIfConfigured(name); err == nil {
		if period := app.(*App).DrainTimeout; period > 0 {
			return time.Duration(period)
		}
	}
	return defaultDrain
}

// servers is a set of servers of Caddy's.
type servers struct{ sync.Map }

// has reports a server that is in the set.
func (s *servers) has(server *caddyhttp.Server) bool {
	_, ok := s.Load(server)
	return ok
}
