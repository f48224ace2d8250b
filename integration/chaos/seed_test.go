package chaos

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock"
)

// event is the begin or the end of a fault.
type event struct {
	at time.Duration
	do func()
}

// tally is what a world's seeds come to.
type tally struct {
	seeds, requests, streams, recycled, failed int
	ends                                       map[string]int
	most                                       footprint // beyond what a new gateway holds
	back                                       int       // sandboxes that answered after the faults, for each gateway
	slowest                                    time.Duration
}

// rehearse runs one seed, and tells what is wrong with it.
func (w *world) rehearse(p plan) (wrong []string) {
	w.seed = p.seed
	w.witness.forget()
	w.rock.Log().Reset()
	w.ledger = newLedger()
	w.store.await(w)
	w.populate(p)

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	crew, clients := make([]*worker, p.workers), []*http.Client(nil)
	var working sync.WaitGroup
	for i := range crew {
		k := &worker{w: w, plan: p, number: i, r: random(p.seed, uint64(i)+1)}
		for _, g := range w.gateways {
			client := g.client()
			k.client, clients = append(k.client, client), append(clients, client)
		}
		crew[i] = k
		working.Go(func() { k.work(ctx) })
	}
	w.carryOut(p)
	stop()
	w.heal()
	working.Wait()
	w.tasks.Wait()
	w.store.await(w)
	wrong = w.recovers(recovery)
	for _, c := range clients {
		c.CloseIdleConnections()
	}
	w.count()
	for _, k := range crew {
		for _, s := range k.told {
			w.sum(s)
			complaints := judge(s, w)
			if len(p.steps) == 0 {
				complaints = append(complaints, serves(s)...)
			}
			if len(complaints) > 0 {
				wrong = append(wrong, strings.Join(complaints, "; ")+"\n    "+s.String())
			}
		}
	}
	w.clear(crew)
	return append(wrong, w.leaks(patience)...)
}

// carryOut does what the plan says.
func (w *world) carryOut(p plan) {
	begun := time.Now()
	var events []event
	for _, s := range p.steps {
		end := func() {}
		events = append(events, event{s.at, func() { end = s.fault.begin(w, s) }}, event{s.at + s.lasts, func() { end() }})
	}
	events = append(events, event{p.length, func() {}})
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for _, e := range events {
		<-time.After(time.Until(begun.Add(e.at)))
		e.do()
	}
}

// count notes what has arrived behind the gateways.
func (w *world) count() {
	w.arrived = map[string]int{}
	for _, r := range w.rock.Log().Requests(rock.Match{}) {
		w.arrived[r.Header.Get(headerID)]++
	}
}

// The world is the truth that stories are held against.

func (w *world) runs(id string) int { return max(w.arrived[id], w.witness.runs(id)) }

func (w *world) body(id string) (int64, bool) { return w.witness.body(id) }

func (w *world) live(sandbox string, from, to time.Time) bool {
	return w.ledger.live(sandbox, from, to)
}

func (w *world) absent(gateway int, from, asked, to time.Time) absence {
	return w.ledger.absent(gateway, from, asked, to)
}

// sum counts a story.
func (w *world) sum(s *story) {
	w.tally.requests++
	end := fmt.Sprint(s.status)
	if s.stream {
		w.tally.streams++
		end = "stream " + cmp.Or(s.code, "ok")
	}
	if s.left {
		end = "left"
	}
	w.tally.ends[end]++
}

// clear ends the sandboxes of a seed, and those that its clients have made.
func (w *world) clear(crew []*worker) {
	all := w.names()
	for _, k := range crew {
		for _, s := range k.told {
			if s.call == "create" {
				all = append(all[:len(all):len(all)], "made-"+s.id)
			}
		}
	}
	for _, id := range all {
		if s := w.rock.Sandbox(id); s != nil {
			_ = s.Stop(rock.Deleted)
		}
	}
}

// leaks waits until nothing is left of a seed, and tells what is.
func (w *world) leaks(limit time.Duration) (wrong []string) {
	within(limit, func() bool {
		wrong = nil
		if n := w.rock.Faults().Live(rock.Match{}); n > 0 {
			wrong = append(wrong, fmt.Sprintf("leak: %d requests go on behind the gateways", n))
		}
		for _, g := range w.gateways {
			now, err := g.footprint()
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("leak: gateway %d cannot be asked: %v", g.number, err))
				continue
			}
			w.tally.most.files = max(w.tally.most.files, now.files-g.idle.files)
			w.tally.most.goroutines = max(w.tally.most.goroutines, now.goroutines-g.idle.goroutines)
			if now.exceeds(g.idle) {
				wrong = append(wrong, fmt.Sprintf("leak: gateway %d holds %+v, and %+v when it was new", g.number, now, g.idle))
			}
		}
		return len(wrong) == 0
	})
	return wrong
}
