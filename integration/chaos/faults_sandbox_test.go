package chaos

import (
	"context"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock"
)

var sandboxFaults = []fault{
	{name: "a sandbox is killed behind the gateways' back", fits: anywhere, weight: 2, begin: func(w *world, s step) func() {
		id := w.pick(s)
		w.ledger.doubt(id)
		w.tasks.Go(func() { _ = w.rock.Sandbox(id).Stop(rock.Deleted) })
		return func() {}
	}},
	{name: "a sandbox is killed through a gateway", fits: anywhere, weight: 2, begin: func(w *world, s step) func() {
		id, g := w.pick(s), w.gateways[s.b%len(w.gateways)]
		w.ledger.doubt(id)
		w.tasks.Go(func() { w.killThrough(g, id) })
		return func() {}
	}},
	{name: "a container crashes", fits: anywhere, weight: 1, begin: func(w *world, s step) func() {
		id := w.pick(s)
		w.ledger.doubt(id)
		w.rock.Sandbox(id).Crash()
		return func() {}
	}},
	{name: "an address is recycled", fits: func(k kind) bool { return k.direct }, weight: 4, takes: quarantine + 900*time.Millisecond, begin: recycle},
}

func (w *world) killThrough(g *gateway, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := g.client()
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, g.url+"/sandboxes/"+id, nil)
	if err != nil {
		return
	}
	if resp, err := client.Do(r); err == nil {
		resp.Body.Close()
	}
}

// recycle kills a sandbox and gives its address to another one: when the record is gone, and then the time has passed for which a gateway
// may remember it. No registry tells a gateway earlier than that in every case, so no host may give an address away earlier.
func recycle(w *world, s step) func() {
	id := w.pick(s)
	w.ledger.doubt(id)
	w.tasks.Go(func() {
		old := w.rock.Sandbox(id)
		port := old.Port()
		_ = old.Stop(rock.Deleted)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for w.records.Records.Del(ctx, "alive:"+id) != nil { // ROCK itself tries once
			select {
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		<-time.After(quarantine)
		heir := "heir-of-" + id
		w.ledger.doubt(heir) // it may come to life while its registry is out
		w.mu.Lock()
		w.ports[heir] = port
		w.mu.Unlock()
		if w.create(heir) != nil {
			return // the registry hangs
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sandboxes = append(w.sandboxes[:len(w.sandboxes):len(w.sandboxes)], heir)
		w.tally.recycled++
	})
	return func() {}
}
