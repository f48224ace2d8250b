// Package share lets gateways tell each other through Redis what they have
// admitted, so that a limit holds for all of them together. It uses one channel
// of publish and subscribe and stores nothing.
//
// Without Redis, and while it cannot be reached, each gateway goes on by its own
// counters: a limit is no reason to turn anybody away who keeps to it.
package share

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth/limit"
)

// Channel is where gateways talk.
const Channel = "e2b-gateway:limits"

// interval is how often they do, if they have anything to say. It is how much
// too late a limit may hold where calls come through several gateways.
const interval = 200 * time.Millisecond

// maxMessage bounds what is read of another gateway, in bytes.
const maxMessage = 8 << 20

// Share keeps a Limiter in touch with those of other gateways.
type Share struct {
	client  goredis.UniversalClient
	limiter *limit.Limiter
	log     *slog.Logger
	name    string
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// Start begins to share. The caller owns the client and calls Close first.
func Start(client goredis.UniversalClient, limiter *limit.Limiter, log *slog.Logger) *Share {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Share{client: client, limiter: limiter, log: log, name: rand.Text(), cancel: cancel}
	s.done.Go(func() { s.listen(ctx) })
	s.done.Go(func() { s.tell(ctx) })
	return s
}

// Close ends it.
func (s *Share) Close() error {
	s.cancel()
	s.done.Wait()
	return nil
}

func (s *Share) listen(ctx context.Context) {
	in := s.client.Subscribe(ctx, Channel)
	defer in.Close()
	messages := in.Channel() // reconnects by itself
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return
			}
			s.heard([]byte(m.Payload))
		case <-ctx.Done():
			return
		}
	}
}

func (s *Share) heard(message []byte) {
	var usage limit.Usage
	if len(message) > maxMessage || json.Unmarshal(message, &usage) != nil || usage.Gateway == s.name {
		return
	}
	s.limiter.Heard(usage)
}

func (s *Share) tell(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	quiet, failing := true, false
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		usage := s.limiter.Report()
		usage.Gateway = s.name
		if usage.Quiet() && quiet {
			continue // that there is nothing is told once
		}
		quiet = usage.Quiet()
		message, err := json.Marshal(usage)
		if err == nil {
			call, cancel := context.WithTimeout(ctx, 5*interval)
			err = s.client.Publish(call, Channel, message).Err()
			cancel()
		}
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			failing = failed
			if failing {
				// Not the error's text: a server may quote what it was sent.
				s.log.Warn("limits are not shared with other gateways at the moment: Redis cannot be reached, or does not allow PUBLISH on the channel",
					"channel", Channel)
			} else {
				s.log.Info("limits are shared with other gateways again")
			}
		}
	}
}
