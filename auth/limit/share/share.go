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
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/auth/limit"
)

// Channel begins the name of the channel on which gateways talk. What follows it
// keeps apart those that share a Redis and nothing else.
const Channel = "e2b-gateway:limits:"

// Gateways talk once in an interval, if they have anything new to say, and say again what
// streams they have in the longest. It is how much too late a limit may hold where calls come
// through several gateways: the longest at one that has just begun to listen.
//
// What is said by each is heard by all, so that what Redis sends grows with the square
// of their number. Long messages, of some hundred subjects, make the interval longer.
const (
	interval        = 200 * time.Millisecond
	longestInterval = 2 * time.Second // others are forgotten after 5 s of silence
	bytesPerSecond  = 64 << 10
)

// intervalAfter is when there may be another message after one of so many bytes.
func intervalAfter(length int) time.Duration {
	return min(max(time.Duration(length)*time.Second/bytesPerSecond, interval), longestInterval)
}

// maxMessage bounds what is read of another gateway, in bytes.
const maxMessage = 8 << 20

// Redis is a server that messages go through.
type Redis interface {
	// Publish sends a message to those who listen on the channel now. It
	// returns soon, whatever the server does.
	Publish(ctx context.Context, channel string, message []byte) error
	// Listen calls heard with each message until ctx ends, and connects again
	// when a connection is lost. An error says that it could not begin.
	Listen(ctx context.Context, channel string, heard func(message string)) error
	io.Closer
}

// Share keeps a Limiter in touch with those of other gateways.
type Share struct {
	redis   Redis
	limiter *limit.Limiter
	log     *slog.Logger
	name    string
	channel string
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// Start begins to share, with those that use the same Redis and the same realm.
// Close closes the Redis, too.
func Start(redis Redis, realm string, limiter *limit.Limiter, log *slog.Logger) *Share {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Share{redis: redis, limiter: limiter, log: log, name: rand.Text(), channel: Channel + realm, cancel: cancel}
	s.done.Go(func() { s.listen(ctx) })
	s.done.Go(func() { s.tell(ctx) })
	return s
}

// Close ends it.
func (s *Share) Close() error {
	s.cancel()
	s.done.Wait()
	return s.redis.Close()
}

// listen hears the others, once it may. It tries again with long pauses: a user
// without the right to gets it from an operator.
func (s *Share) listen(ctx context.Context) {
	failing := false
	for n := 0; ctx.Err() == nil; n++ {
		err := s.redis.Listen(ctx, s.channel, s.heard)
		failing = s.complain(ctx, "SUBSCRIBE", failing, err)
		pause := time.NewTimer(min(interval<<min(n, 8), 30*time.Second))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// complain logs a change from well to failing and back, and returns which it is.
func (s *Share) complain(ctx context.Context, command string, before bool, err error) (failing bool) {
	failing = err != nil && ctx.Err() == nil
	switch {
	case failing && !before:
		// Not the error's text: a server may quote what it was sent.
		s.log.Warn("limits are not shared with other gateways at the moment: Redis cannot be reached, or does not allow the command on the channel",
			"command", command, "channel", s.channel)
	case before && !failing && ctx.Err() == nil:
		s.log.Info("limits are shared with other gateways again", "command", command)
	}
	return failing
}

func (s *Share) heard(message string) {
	var usage limit.Usage
	if len(message) > maxMessage || json.Unmarshal([]byte(message), &usage) != nil || usage.Gateway == s.name {
		return
	}
	s.limiter.Heard(usage)
}

func (s *Share) tell(ctx context.Context) {
	next := time.NewTimer(interval)
	defer next.Stop()
	failing := false
	var told limit.Usage // which Redis has surely heard
	var toldAt time.Time // or tried in vain, after which others may have heard it, or not
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		usage := s.limiter.Report()
		usage.Gateway = s.name
		if usage.Standing(told) && (usage.Quiet() && !failing || time.Since(toldAt) < longestInterval) {
			next.Reset(interval)
			continue // that there is nothing is told once
		}
		message, err := json.Marshal(usage)
		next.Reset(intervalAfter(len(message)))
		if err == nil {
			err = s.redis.Publish(ctx, s.channel, message)
		}
		if toldAt = time.Now(); err == nil {
			told = usage
		}
		failing = s.complain(ctx, "PUBLISH", failing, err)
	}
}
