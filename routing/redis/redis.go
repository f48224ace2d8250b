package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/routing"
)

// Registry reads routes from ROCK's Redis. See the package comment for what
// its answers mean. It is a routing.Registry and a routing.Watcher.
type Registry struct {
	cfg    Config
	client goredis.UniversalClient
	secret *strings.Replacer
	log    *slog.Logger

	// style is how the last record was written, tried first for the next.
	style    atomic.Uint32
	commands atomic.Uint64
	watching atomic.Int32
	refusing atomic.Bool // Redis has refused to extend a sandbox
}

var (
	_ routing.Registry = (*Registry)(nil)
	_ routing.Watcher  = (*Registry)(nil)
	_ routing.Pinger   = (*Registry)(nil)
)

// quiet keeps go-redis from writing to standard error by itself: its lines name
// addresses and have no level. What it has to say is in the errors it returns.
// The setting is the process's: other users of go-redis in a Caddy with more
// modules are silenced too.
var quiet = sync.OnceFunc(func() { goredis.SetLogger(nothing{}) })

type nothing struct{}

func (nothing) Printf(context.Context, string, ...any) {}

// New returns a registry for cfg. It opens no connection: whether Redis can be
// reached is seen at the first lookup. The error names what is wrong in cfg or
// which of its files cannot be read. Its owner calls Close.
func New(cfg Config) (*Registry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	quiet()
	return &Registry{
		cfg:    cfg,
		client: goredis.NewUniversalClient(options),
		secret: redactor(cfg),
		log:    cfg.Logger,
	}, nil
}

// Close closes all connections. Lookups in progress fail.
func (r *Registry) Close() error { return r.client.Close() }

// Lookup reads a sandbox's record. It returns within Config.Timeout whatever
// Redis does, and costs one command once it is known how ROCK writes its
// records there. Asking Config.Evicted comes on top.
func (r *Registry) Lookup(ctx context.Context, sandboxID string) (*routing.Route, error) {
	if !routing.ValidSandboxID(sandboxID) {
		return nil, routing.ErrInvalidSandboxID
	}
	record, err := r.record(ctx, sandboxID)
	switch {
	case errors.Is(err, routing.ErrGone):
		return r.evicted(ctx, sandboxID)
	case err != nil:
		return nil, err
	}
	return parseRecord(sandboxID, record, r.cfg.Fields, r.cfg.KeyOf)
}

// Ping implements [routing.Pinger]: a lookup, which takes the right to read records,
// without the question to Config.Evicted. With Cluster it is one node that is asked.
func (r *Registry) Ping(ctx context.Context) error {
	if _, err := r.record(ctx, routing.PingID); err != nil && !errors.Is(err, routing.ErrGone) && !errors.Is(err, routing.ErrMalformed) {
		return err
	}
	return nil
}

func (r *Registry) record(ctx context.Context, sandboxID string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	return r.read(ctx, r.cfg.KeyPrefix+sandboxID)
}

// evicted tells a stopped sandbox from one that is gone. When nobody can say
// which it is, it does not run all the same; but if it does run, Redis has lost
// its record and cannot say where it is.
func (r *Registry) evicted(ctx context.Context, sandboxID string) (*routing.Route, error) {
	if r.cfg.Evicted == nil {
		return nil, routing.ErrGone
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout/2)
	defer cancel()
	switch route, err := r.cfg.Evicted(ctx, sandboxID); {
	case errors.Is(err, routing.ErrGone):
		return nil, routing.ErrGone
	case err == nil && (route.State == routing.StatePaused || route.State == routing.StateExpired):
		return route, nil
	case err == nil:
		return nil, fmt.Errorf("%w: Redis has no record of a sandbox that is %v", routing.ErrUnavailable, route.State)
	default:
		return &routing.Route{SandboxID: sandboxID, State: routing.StateStopped, Problem: err.Error()}, nil
	}
}

// style is a way to write JSON to Redis, and the command that reads it.
type style uint32

const (
	document style = iota // a RedisJSON document: ROCK's own way
	text                  // a plain string
)

func (s style) other() style { return text - s }

// command is the name of the command that reads s, as Redis writes it.
func (s style) command() string {
	if s == document {
		return "json.get"
	}
	return "get"
}

// processor is what a command is sent by: the client, or a transaction.
type processor interface {
	Process(ctx context.Context, cmd goredis.Cmder) error
}

func (r *Registry) read(ctx context.Context, key string) ([]byte, error) {
	record, _, err := r.readBy(ctx, r.client, key)
	return record, err
}

// readBy reads a key in the style in which it is written, and says which that is.
func (r *Registry) readBy(ctx context.Context, by processor, key string) ([]byte, style, error) {
	first := style(r.style.Load())
	record, err := r.command(ctx, by, first, key)
	if err == nil || !mayBeOtherStyle(err, first) {
		return record, first, r.meaning(err)
	}
	record, second := r.command(ctx, by, first.other(), key)
	if second == nil || errors.Is(second, goredis.Nil) {
		r.style.Store(uint32(first.other()))
		return record, first.other(), r.meaning(second)
	}
	if !mayBeOtherStyle(second, first.other()) {
		return nil, first, r.meaning(second)
	}
	for _, err := range []error{err, second} {
		if strings.HasPrefix(err.Error(), "NOPERM") {
			return nil, first, r.meaning(err)
		}
	}
	return nil, first, fmt.Errorf("%w: its key holds neither a JSON document nor a string", routing.ErrMalformed)
}

// staleConnections is how many connections that died while idle one lookup
// throws away. Without TLS they are noticed before they are used.
const staleConnections = 16

// command asks once, on a connection that lives.
func (r *Registry) command(ctx context.Context, by processor, s style, key string) (record []byte, err error) {
	err = onLiving(ctx, r.client, func() (err error) {
		r.commands.Add(1)
		get := goredis.NewStringCmd(ctx, "GET", key)
		if s == document {
			get = goredis.NewStringCmd(ctx, "JSON.GET", key, "$")
		}
		_ = by.Process(ctx, get) // also in get
		record, err = get.Bytes()
		return err
	})
	return record, err
}

// lost reports an error of a connection that was open and is not any more.
func lost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// mayBeOtherStyle reports an answer to s's command that a key written in the
// other style, or a server that only offers the other command, would give.
//
// The command's name must be in it: go-redis hands out errors of a
// connection's login as if they were the command's.
func mayBeOtherStyle(err error, s style) bool {
	answer, ok := err.(goredis.Error)
	if !ok || errors.Is(err, goredis.Nil) {
		return false
	}
	text := strings.ToLower(answer.Error())
	switch {
	case strings.HasPrefix(text, "wrongtype"), strings.Contains(text, "wrong redis type"): // the latter RedisJSON before 2.8
		return true
	case strings.HasPrefix(text, "err unknown command"), strings.HasPrefix(text, "noperm"):
		return strings.Contains(text, "'"+s.command()+"'") || strings.Contains(text, "`"+s.command()+"`")
	}
	return false
}

// meaning turns an error of go-redis into one of the registry's answers.
func (r *Registry) meaning(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, goredis.Nil):
		return routing.ErrGone
	default:
		return fmt.Errorf("%w: %w", routing.ErrUnavailable, r.redact(err))
	}
}

// redacted is an error without the passwords that a server may repeat, such as
// in "unknown command 'AUTH', with args beginning with: …".
type redacted struct {
	text  string
	cause error
}

func (e redacted) Error() string        { return e.text }
func (e redacted) Is(target error) bool { return errors.Is(e.cause, target) }
func (e redacted) As(target any) bool   { return errors.As(e.cause, target) }

func (r *Registry) redact(err error) error {
	return redacted{r.secret.Replace(err.Error()), err}
}

func redactor(c Config) *strings.Replacer {
	secrets := []string{c.Password}
	if c.Sentinel != nil {
		secrets = append(secrets, c.Sentinel.Password)
	}
	var pairs []string
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, s, "[redacted]")
		}
	}
	return strings.NewReplacer(pairs...)
}

// Stats is what a registry does at present.
type Stats struct {
	// Commands is how many commands were sent for lookups, or tried to.
	Commands uint64
	// Connections are open, Idle of them unused.
	Connections, Idle uint32
	// PoolTimeouts is how often no connection became free in time.
	PoolTimeouts uint32
	// Watching is the number of servers whose changes we hear of.
	Watching int
}

// Stats returns counters for operators and tests.
func (r *Registry) Stats() Stats {
	pool := r.client.PoolStats()
	return Stats{
		Commands:     r.commands.Load(),
		Connections:  pool.TotalConns,
		Idle:         pool.IdleConns,
		PoolTimeouts: pool.Timeouts,
		Watching:     int(r.watching.Load()),
	}
}

// backoff is the pause before the n-th reconnection, n from 0.
func backoff(n int) time.Duration {
	return min(100*time.Millisecond<<min(n, 10), 5*time.Second)
}
