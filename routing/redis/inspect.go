package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Needs are what a gateway does with a Redis, beyond connecting to it.
type Needs struct {
	// Records are read at Config.KeyPrefix, and Config.Watch is done.
	Records bool
	// Ends are pushed back at Config.TimeoutPrefix.
	Ends bool
	// Hashes is the prefix of hashes that are read, "" for none.
	Hashes string
	// Channel is one that gateways talk on, "" for none.
	Channel string
}

// Inspection is what [Inspect] found.
type Inspection struct {
	// Refused are the commands that the server does not do for its user, in the
	// order in which a gateway would miss them.
	Refused []Refusal
	// Documents says that the server knows the JSON commands, which ROCK writes
	// its records with.
	Documents bool

	// Facts are what the server tells of itself to a user who may ask; Untold
	// names the commands to which it did not answer.
	Facts  Facts
	Untold []string
}

// Facts are what INFO, TIME and CONFIG GET say, each zero when it was not told.
type Facts struct {
	// Version is that of the server, such as "7.0.15".
	Version string
	// Replica says that the server takes no writes but its master's.
	Replica bool
	// MemoryLimit is maxmemory in bytes, Eviction is maxmemory-policy.
	MemoryLimit int64
	Eviction    string
	// Events is notify-keyspace-events. EventsTold says that "" means none.
	Events     string
	EventsTold bool
	// Skew is how far the server's clock is ahead of this machine's, and SkewTold
	// that it is known.
	Skew     time.Duration
	SkewTold bool
}

// Refusal is a command that the server does not do.
type Refusal struct {
	// Command is its name, as an ACL has it: "json.get", "client|tracking".
	Command string
	// On is the key or channel it was for.
	On string
	// For is what the gateway needs it for.
	For string
	// Err is the server's answer, without passwords.
	Err error
}

// Forbidden reports that the user lacks the right; without it the server lacks
// the command.
func (r Refusal) Forbidden() bool { return strings.HasPrefix(r.Err.Error(), "NOPERM") }

// noSandbox is an id that ROCK gives to nobody.
const noSandbox = "e2b-gateway-doctor"

// Inspect tries what a gateway does with a Redis, as the user that it does it as,
// and changes nothing: what it reads does not exist, what it writes is written
// only over what exists (XX), and what it publishes is no message to anybody.
//
// The error, which holds no password, says that the server cannot be reached or
// does not let its user in. Everything is done within ctx.
func Inspect(ctx context.Context, cfg Config, needs Needs) (*Inspection, error) {
	cfg.Logger = slog.New(slog.DiscardHandler)
	r, err := New(cfg)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.client.Ping(ctx).Err(); err != nil && !refused(err) {
		return nil, r.redact(err)
	}
	i := &inspector{registry: r, out: new(Inspection)}
	if needs.Records {
		i.records(ctx)
		i.watch(ctx)
	}
	if needs.Ends {
		i.ends(ctx)
	}
	if needs.Hashes != "" {
		key := needs.Hashes + strings.Repeat("0", 64)
		i.try(ctx, "hgetall", needs.Hashes+"*", "keys redis", goredis.NewCmd(ctx, "HGETALL", key))
	}
	if needs.Channel != "" {
		i.channel(ctx, needs.Channel)
	}
	i.facts(ctx)
	return i.out, ctx.Err()
}

type inspector struct {
	registry *Registry
	out      *Inspection
}

// refused reports an answer of the server, as opposed to a broken connection.
func refused(err error) bool {
	text := err.Error()
	for _, prefix := range []string{"NOPERM", "ERR unknown", "ERR Unknown", "ERR syntax", "ERR wrong number", "EXECABORT"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

func (i *inspector) note(command, on, purpose string, err error) {
	if err != nil && !errors.Is(err, goredis.Nil) && refused(err) {
		i.out.Refused = append(i.out.Refused, Refusal{command, on, purpose, i.registry.redact(err)})
	}
}

func (i *inspector) try(ctx context.Context, command, on, purpose string, cmd goredis.Cmder) {
	i.note(command, on, purpose, i.registry.client.Process(ctx, cmd))
}

// records tries both ways to read a record: either will do for a server that
// lacks the JSON commands, so that only the user's rights count there.
func (i *inspector) records(ctx context.Context) {
	key := i.registry.cfg.KeyPrefix + noSandbox
	const purpose = "the records of sandboxes"
	document := goredis.NewStringCmd(ctx, "JSON.GET", key, "$")
	err := i.registry.client.Process(ctx, document)
	i.out.Documents = err == nil || errors.Is(err, goredis.Nil) || strings.HasPrefix(err.Error(), "NOPERM")
	if i.out.Documents {
		i.note("json.get", i.registry.cfg.KeyPrefix+"*", purpose, err)
		return
	}
	i.try(ctx, "get", i.registry.cfg.KeyPrefix+"*", purpose, goredis.NewStringCmd(ctx, "GET", key))
}

// ends tries the transaction that pushes the end of a sandbox back.
func (i *inspector) ends(ctx context.Context) {
	on, key := i.registry.cfg.TimeoutPrefix+"*", i.registry.cfg.TimeoutPrefix+noSandbox
	const purpose = "activity: sandboxes in use do not end"
	read, write := []any{"GET", key}, []any{"SET", key, "{}", "XX", "KEEPTTL"}
	if i.out.Documents {
		read, write = []any{"JSON.GET", key, "$"}, []any{"JSON.SET", key, "$", "{}", "XX"}
	}
	err := i.registry.client.Watch(ctx, func(tx *goredis.Tx) error {
		i.note(strings.ToLower(read[0].(string)), on, purpose, tx.Process(ctx, goredis.NewCmd(ctx, read...)))
		commands, err := tx.TxPipelined(ctx, func(p goredis.Pipeliner) error { return p.Do(ctx, write...).Err() })
		for _, command := range commands {
			if command.Err() != nil && !strings.HasPrefix(command.Err().Error(), "EXECABORT") {
				err = command.Err()
			}
		}
		name := strings.ToLower(write[0].(string))
		if err != nil && strings.Contains(err.Error(), "'multi'") {
			name = "multi"
		} else if err != nil && strings.Contains(err.Error(), "'exec'") {
			name = "exec"
		}
		i.note(name, on, purpose, err)
		return nil
	}, key)
	i.note("watch", on, purpose, err)
}

// watch begins to hear of changes, as a registry does, at every master.
func (i *inspector) watch(ctx context.Context) {
	r := i.registry
	if r.cfg.Watch == WatchOff {
		return
	}
	masters := r.cfg.Addresses
	switch {
	case r.cfg.Cluster:
		masters, _ = r.clusterMasters(ctx)
	case r.cfg.Sentinel != nil:
		s := &sentinels{cfg: r.cfg}
		masters, _ = s.master(ctx)
		s.close()
	}
	for _, address := range masters {
		up, cancel := context.WithCancel(ctx)
		err := r.watchOnce(up, address, func(string) { cancel() })
		began := up.Err() != nil && ctx.Err() == nil
		cancel()
		if began || err == nil {
			continue
		}
		command, on := "client|tracking", trackingChannel
		switch {
		case r.cfg.Watch == WatchKeyspace:
			command, on = "psubscribe", r.keyspacePattern()
		case strings.Contains(err.Error(), "subscribe") || strings.Contains(err.Error(), "channel"):
			command = "subscribe"
		case strings.Contains(err.Error(), "client|id"):
			command = "client|id"
		}
		i.note(command, on, "watch "+r.cfg.Watch+": changes are heard of at once", err)
		return
	}
}

func (i *inspector) channel(ctx context.Context, channel string) {
	const purpose = "limits that gateways share"
	in := i.registry.client.Subscribe(ctx, channel)
	_, err := in.Receive(ctx)
	in.Close()
	i.note("subscribe", channel, purpose, err)
	// No gateway takes what is no JSON for a message.
	i.try(ctx, "publish", channel, purpose, goredis.NewIntCmd(ctx, "PUBLISH", channel, "doctor"))
}

// facts asks what the gateway itself never does, so that a user who may not ask
// is no worse off.
func (i *inspector) facts(ctx context.Context) {
	client, f := i.registry.client, &i.out.Facts
	if info, err := client.Info(ctx).Result(); err != nil {
		i.out.Untold = append(i.out.Untold, "INFO")
	} else {
		f.read(info)
	}
	asked := time.Now()
	if now, err := client.Time(ctx).Result(); err != nil {
		i.out.Untold = append(i.out.Untold, "TIME")
	} else {
		middle := asked.Add(time.Since(asked) / 2)
		f.Skew, f.SkewTold = now.Sub(middle), true
	}
	if i.registry.cfg.Watch != WatchKeyspace {
		return
	}
	events, err := client.ConfigGet(ctx, "notify-keyspace-events").Result()
	if err != nil || len(events) == 0 {
		i.out.Untold = append(i.out.Untold, "CONFIG GET notify-keyspace-events")
		return
	}
	f.Events, f.EventsTold = events["notify-keyspace-events"], true
}

// read takes what is of interest out of the answer to INFO.
func (f *Facts) read(info string) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "redis_version":
			f.Version = value
		case "role":
			f.Replica = value == "slave"
		case "maxmemory":
			f.MemoryLimit, _ = strconv.ParseInt(value, 10, 64)
		case "maxmemory_policy":
			f.Eviction = value
		}
	}
}

// HearsOfRecords reports whether notify-keyspace-events lets a gateway with watch
// keyspace hear of every change of a record: events by key (K), and of these
// classes all that strings and documents have.
func (f Facts) HearsOfRecords(documents bool) bool {
	has := func(class string) bool { return strings.Contains(f.Events, class) }
	commands := has("A") || has("g") && has("$") // DEL and SET
	if documents {
		commands = (has("A") || has("g")) && (has("A") || has("d")) // JSON.DEL and JSON.SET are a module's
	}
	return has("K") && commands
}

// String names the refused command and what it was for.
func (r Refusal) String() string {
	return fmt.Sprintf("%s on %s (%s): %v", r.Command, r.On, r.For, r.Err)
}
