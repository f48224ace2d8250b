package soak

import (
	"context"
	"time"

	"github.com/caddy-e2b/gateway/integration/ownnet"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// fault is what is done to the deployment. It returns when it is over.
type fault struct {
	name string
	make func(s *stage, n int)
}

// faults are made one after the other, over and over.
var faults = []fault{
	{string(reloading), (*stage).reload},
	{string(death) + ": it is killed", (*stage).killOne},
	{string(cut), (*stage).cutAll},
	{string(outage), (*stage).restartRedis},
	{string(death) + ": its container ends behind ROCK's back", (*stage).crashOne},
	{string(reloading), (*stage).reload},
	{"ROCK's proxy role answers 200 ms late", (*stage).slow},
	{string(death) + ": it is killed", (*stage).killOne},
	{string(hanging), (*stage).hangRedis},
}

// torment makes faults at this pace until ctx ends, and returns how often each was made.
func (s *stage) torment(ctx context.Context, every time.Duration) (made map[string]int) {
	made = map[string]int{}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return made
		}
		f := faults[n%len(faults)]
		f.make(s, n)
		made[f.name]++
	}
}

func (s *stage) reload(n int) {
	if !ownnet.Migrates() {
		defer s.troubles.begin(reloading, "")()
	}
	s.gateway.Reload(s.configs[(n+1)%2])
}

// killOne ends the sandbox of a slot and puts another there.
func (s *stage) killOne(n int) {
	s.exchange(n, func(b sandbox) {
		if a := s.kill(b); a.status != 204 {
			s.Errorf("killing a sandbox: %v", a)
		}
	})
}

// crashOne does the same to a sandbox of which ROCK's records go on saying that it runs, until somebody kills it.
func (s *stage) crashOne(n int) {
	s.exchange(n, func(b sandbox) {
		s.rock.Sandbox(b.ID).Crash()
		pause(time.Second)
		s.kill(b)
	})
}

func (s *stage) exchange(n int, end func(sandbox)) {
	s.changing.RLock()
	defer s.changing.RUnlock()
	place := s.slots[n%len(s.slots)]
	other, err := s.create()
	if err != nil {
		s.Error(err)
		return
	}
	b := place.sandbox()
	over := s.troubles.begin(death, b.ID)
	defer over()
	end(b)
	place.put(other)
}

// cutAll resets what runs through the proxy role. Calls that the gateway had begun but not yet sent are not hit.
func (s *stage) cutAll(int) {
	over := s.troubles.begin(cut, "")
	defer over()
	if s.rock.Faults().Fire(rock.Match{Role: rock.Proxy}, rock.Reset) == 0 {
		s.Error("nothing ran through ROCK's proxy role")
	}
	pause(settling)
}

// settling is how long the last of a fault may be felt. Calls that began before are told of it whenever they end.
const settling = time.Second

func (s *stage) restartRedis(int) {
	s.changing.Lock()
	defer s.changing.Unlock()
	over := s.troubles.begin(outage, "")
	defer over()
	s.registry.Stop()
	pause(time.Second)
	s.registry.Start()
	pause(settling)
}

func (s *stage) hangRedis(int) {
	s.changing.Lock()
	defer s.changing.Unlock()
	over := s.troubles.begin(hanging, "")
	defer over()
	s.registry.Pause()
	pause(2 * time.Second)
	s.registry.Resume()
	pause(settling)
}

// slow is no excuse for anything.
func (s *stage) slow(int) {
	late := s.rock.Faults().Add(rock.Fault{Match: rock.Match{Role: rock.Proxy}, Kind: rock.Delay, At: rock.BeforeHeaders, Wait: 200 * time.Millisecond})
	pause(2 * time.Second)
	late.Disarm()
}

// pause lets a fault last: it is part of the load, and nothing waits for it to have had an effect.
func pause(d time.Duration) { <-time.After(d) }
