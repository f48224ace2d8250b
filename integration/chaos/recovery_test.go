package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// recovery is how long after the last fault each gateway may take until it serves every sandbox that is alive again. Redis has found
// itself by then.
const recovery = 5 * time.Second

// recovers waits until every sandbox that is certainly alive and registered answers through each gateway, and tells which do not.
func (w *world) recovers(limit time.Duration) (wrong []string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var (
		begun  = time.Now()
		asking sync.WaitGroup
		mu     sync.Mutex
	)
	for _, g := range w.gateways {
		client := g.client()
		defer client.CloseIdleConnections()
		for _, id := range w.names() {
			if !w.ledger.settled(id) {
				continue
			}
			asking.Go(func() {
				err := g.answers(ctx, client, id)
				took := time.Since(begun)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					wrong = append(wrong, fmt.Sprintf("not served again: %s through gateway %d, %v after the faults: %v", id, g.number, limit, err))
					return
				}
				w.tally.back++
				w.tally.slowest = max(w.tally.slowest, took)
			})
		}
	}
	asking.Wait()
	return wrong
}

// answers asks again and again whether a sandbox is healthy, until it says so or ctx ends.
func (g *gateway) answers(ctx context.Context, client *http.Client, sandbox string) error {
	for last := errors.New("no answer"); ; {
		err := g.health(ctx, client, sandbox)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err // what ends with ctx tells nothing
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// health asks once whether a sandbox is healthy.
func (g *gateway) health(ctx context.Context, client *http.Client, sandbox string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/health", nil)
	if err != nil {
		return err
	}
	r.Header.Set("E2b-Sandbox-Id", sandbox)
	r.Header.Set("E2b-Sandbox-Port", "49983")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if by := resp.Header.Get(headerWitness); resp.StatusCode != http.StatusNoContent || by != sandbox {
		return fmt.Errorf("%s, from %q", resp.Status, by)
	}
	return nil
}
