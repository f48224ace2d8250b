package rolling

import (
	"context"
	"flag"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen on a busy machine.
const patience = 60 * time.Second

var (
	streams = flag.Int("streams", 60, "streams that are open all the time")
	rate    = flag.Int("rate", 100, "calls a second beside them")
	rounds  = flag.Int("rounds", 1, "how often both gateways are replaced")

	shutdownDelay = 3 * time.Second
	gracePeriod   = 4 * time.Second
)

// Contract checklist 65 to 67, field reports C04, N02 and N03.
func TestGatewaysAreReplacedOneAfterTheOtherAndNobodyLosesACall(t *testing.T) {
	t.Parallel()
	s := newStage(t, 20)
	crowd := gather(t, s, *streams)
	load := steady(t, s, *rate)
	programs := startSDKs(t, s)

	for range *rounds {
		for i, g := range s.gateways {
			g.Signal(syscall.SIGTERM)
			s.balancer.await(t, i, "DOWN")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if err := g.Wait(ctx); err != nil {
				t.Errorf("gateway %d ended with %v", i+1, err)
			}
			cancel()
			g.Replace(s.caddyfile)
			s.balancer.await(t, i, "UP")
			crowd.await(t, func(m *member) bool { return m.heard > 0 })
		}
	}

	for _, p := range programs {
		p.finish(t)
	}
	crowd.await(t, func(m *member) bool { return m.drains > 0 })
	calls, drains := load.finish(t), crowd.report(t)
	t.Logf("%d calls at %.0f a second, of which %d failed; %d streams were told %d times that their gateway goes, and went on",
		calls, float64(calls)/load.lasted.Seconds(), len(load.failures), len(crowd.members), drains)

	// The sandboxes that the first processes made are those of the last.
	client := s.balancer.client(t, 1)
	for i := range s.sandboxes {
		if err := s.call(client, request{method: http.MethodDelete, path: "/sandboxes/" + s.sandboxes[i].ID, key: true, status: http.StatusNoContent}, nil); err != nil {
			t.Error(err)
		}
	}
}
