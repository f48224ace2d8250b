package chaos

import (
	"context"
	"sync"
	"time"
)

var redisFaults = []fault{
	{name: "Redis is killed and comes back empty", fits: in(plain), weight: 2, once: true, family: "redis", begin: func(w *world, _ step) func() {
		certain := w.doubtAll()
		w.store.one.Stop()
		return func() {
			w.store.one.Start()
			w.records.restore(w)
			certain()
		}
	}},
	{name: "Redis is stopped", fits: in(plain), weight: 2, once: true, family: "redis", begin: func(w *world, _ step) func() {
		w.store.one.Pause()
		return w.store.one.Resume
	}},
	{name: "Redis pauses its clients", fits: in(plain), weight: 1, once: true, family: "redis", begin: func(w *world, s step) func() {
		w.store.one.Do("CLIENT", "PAUSE", s.lasts.Milliseconds())
		return func() {}
	}},
	{name: "Redis is slow", fits: in(plain), weight: 1, once: true, family: "redis wire", begin: on(redisWire, breakWire[2].do)},
	{name: "Redis is silent", fits: in(plain), weight: 1, once: true, family: "redis wire", begin: on(redisWire, breakWire[3].do)},
	{name: "Redis refuses", fits: in(plain), weight: 1, once: true, family: "redis wire", begin: on(redisWire, breakWire[0].do)},
	{name: "connections to Redis are cut", fits: in(plain), weight: 1, once: true, family: "redis wire", begin: on(redisWire, breakWire[1].do)},
	{name: "connections to Redis are half-closed", fits: in(plain), weight: 1, once: true, family: "redis wire", begin: on(redisWire, breakWire[4].do)},
	{name: "Redis is flushed", fits: func(k kind) bool { return k.registry != control }, weight: 1, once: true, family: "redis", begin: func(w *world, _ step) func() {
		certain := w.doubtAll()
		w.flush()
		return func() {
			w.records.restore(w)
			certain()
		}
	}},
	{name: "a record flaps", fits: func(k kind) bool { return k.registry != control }, weight: 1, begin: flap},
	{name: "Redis fails over", fits: in(sentinel), weight: 1, once: true, family: "redis", begin: func(w *world, _ step) func() {
		w.store.pair.Failover()
		return func() {}
	}},
	// Shorter than the sentinel waits: a failover takes it a quarter of a minute to come to rest from, and there is a fault for that.
	{name: "the master is stopped", fits: in(sentinel), weight: 1, once: true, family: "redis", begin: func(w *world, s step) func() {
		master := w.store.pair.Primary
		master.Pause()
		resume := sync.OnceFunc(master.Resume)
		time.AfterFunc(min(s.lasts, 200*time.Millisecond), resume)
		return resume
	}},
	{name: "slots move", fits: in(sharded), weight: 4, once: true, family: "redis", begin: func(w *world, s step) func() {
		for i, id := range w.names() {
			w.store.move(w, "alive:"+id, (s.b+i)%3)
		}
		return func() {
			for i, id := range w.names() {
				w.store.move(w, "alive:"+id, (s.b+i+1)%3)
			}
		}
	}},
	{name: "a node is killed and comes back empty", fits: in(sharded), weight: 1, once: true, family: "redis", begin: func(w *world, s step) func() {
		certain := w.doubtAll()
		node := w.store.shards.Nodes[s.a%3]
		node.Stop()
		return func() {
			node.Start()
			w.records.restore(w)
			certain()
		}
	}},
	{name: "a node is stopped", fits: in(sharded), weight: 1, once: true, family: "redis", begin: func(w *world, s step) func() {
		node := w.store.shards.Nodes[s.a%3]
		node.Pause()
		return node.Resume
	}},
}

func redisWire(w *world) *wire { return w.store.wire }

// flush empties the Redis of a world.
func (w *world) flush() {
	switch {
	case w.store.one != nil:
		w.store.one.Do("FLUSHALL")
	case w.store.pair != nil:
		if err := insist(func(ctx context.Context) error { return w.store.client.FlushAll(ctx).Err() }); err != nil {
			w.Fatal(err)
		}
	default:
		for _, n := range w.store.shards.Nodes {
			n.Do("FLUSHALL")
		}
	}
}

// flap takes a sandbox's record away and puts it back, again and again.
func flap(w *world, s step) func() {
	id := w.pick(s)
	w.ledger.doubt(id)
	stop := make(chan struct{})
	over := make(chan struct{})
	pause := time.Duration(1+s.c%60) * time.Millisecond
	w.records.mu.Lock()
	doc := w.records.docs["alive:"+id]
	w.records.mu.Unlock()
	go func() {
		defer close(over)
		for away := true; ; away = !away {
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			if away {
				_ = w.records.Records.Del(ctx, "alive:"+id)
			} else if doc != nil {
				_ = w.records.Records.Set(ctx, "alive:"+id, doc)
			}
			cancel()
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
		}
	}()
	return func() {
		close(stop)
		<-over
		// Redis may be out at this time, and comes back later in the plan.
		w.tasks.Go(func() {
			// What is written to a master that is being replaced may be lost.
			if w.records.settle("alive:"+id) == nil && w.kind.registry != sentinel {
				w.ledger.certain(id)
			}
		})
	}
}
