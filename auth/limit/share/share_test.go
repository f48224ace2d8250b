package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/limit"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing/redis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Field report G: a limit holds across gateways, and Redis going away takes
// nothing from anybody.
func TestTwoGatewaysShareALimitThroughRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	gateway := func() *limit.Limiter {
		client, err := redis.NewClient(redis.Config{Addresses: []string{server.Addr}})
		if err != nil {
			t.Fatal(err)
		}
		l := limit.New(auth.Limits{Streams: 3}, auth.Limits{})
		s := Start(client, "0:alive:", l, quiet)
		t.Cleanup(func() { s.Close() })
		return l
	}
	a, b := gateway(), gateway()
	who := limit.Who{Subject: "x"}
	free := func(l *limit.Limiter) (n int) {
		var open []limit.Stream
		for {
			s, r := l.Open(who)
			if r != nil {
				break
			}
			open = append(open, s)
		}
		for i := range open {
			open[i].Close()
		}
		return len(open)
	}
	until := func(what string, want int) {
		t.Helper()
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for end := time.After(30 * time.Second); free(b) != want; {
			select {
			case <-ticker.C:
			case <-end:
				t.Fatalf("%s: %d streams are free at the other gateway, want %d", what, free(b), want)
			}
		}
	}
	first, _ := a.Open(who)
	second, _ := a.Open(who)
	until("two streams", 1)
	first.Close()
	until("one stream", 2)
	server.Stop()
	until("Redis gone", 3) // what cannot be heard is not counted for ever
	second.Close()
	if n := free(a); n != 3 {
		t.Errorf("%d streams are free while Redis is gone", n)
	}
}

// forbidden is a Redis whose user may neither speak nor listen.
type forbidden struct{ asked chan string }

func (f forbidden) Publish(context.Context, string, []byte) error {
	f.asked <- "PUBLISH"
	return errors.New("NOPERM hunter2")
}

func (f forbidden) Listen(context.Context, string, func(string)) error {
	f.asked <- "SUBSCRIBE"
	return errors.New("NOPERM hunter2")
}

func (forbidden) Close() error { return nil }

func TestAnOperatorIsToldOnceThatNothingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := limit.New(auth.Limits{Streams: 3}, auth.Limits{})
		stream, _ := l.Open(limit.Who{Subject: "x"})
		defer stream.Close()
		asked := make(chan string, 1000)
		s := Start(forbidden{asked}, "0:", l, slog.New(slog.NewTextHandler(&log, nil)))
		time.Sleep(10 * time.Second) // the bubble's
		s.Close()
		n := map[string]int{}
		for range len(asked) {
			n[<-asked]++
		}
		if n["PUBLISH"] < 10 || n["SUBSCRIBE"] < 3 || n["SUBSCRIBE"] > 20 {
			t.Errorf("asked: %v", n)
		}
		if text := log.String(); strings.Count(text, "WARN") != 2 || !strings.Contains(text, "command=SUBSCRIBE") || !strings.Contains(text, "command=PUBLISH") || strings.Contains(text, "hunter2") {
			t.Errorf("%s", text)
		}
	})
}

// counting is a Redis that takes note of what it is told.
type counting struct {
	messages, bytes atomic.Int64
	fails           atomic.Bool
}

func (c *counting) Publish(_ context.Context, _ string, message []byte) error {
	c.messages.Add(1)
	c.bytes.Add(int64(len(message)))
	if c.fails.Load() {
		return errors.New("gone")
	}
	return nil
}

func (c *counting) Listen(ctx context.Context, _ string, _ func(string)) error {
	<-ctx.Done()
	return nil
}

func (*counting) Close() error { return nil }

// Within 10 s, of a gateway whose subjects have a stream each.
func TestWhatIsKnownIsToldLessOftenAndSoIsMuch(t *testing.T) {
	for _, c := range []struct {
		what                  string
		subjects              int
		streams, calls, never bool  // that come and go meanwhile
		want                  int64 // messages
	}{
		{what: "nobody", subjects: 0, want: 0},
		{what: "one stream that stays", subjects: 1, want: 5},
		{what: "100 streams that stay", subjects: 100, want: 5},
		{what: "one that stays and one that comes and goes", subjects: 1, streams: true, want: 50},
		{what: "one that stays, and calls", subjects: 1, calls: true, want: 50},
		{what: "many, and one that comes and goes", subjects: 1000, streams: true, want: 16},
		{what: "very many, and one that comes and goes", subjects: 100_000, streams: true, want: 5},
		{what: "one that Redis is never told of", subjects: 1, never: true, want: 50},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := limit.New(auth.Limits{Streams: 3, Requests: 1000}, auth.Limits{})
			var open []limit.Stream
			for i := range c.subjects {
				stream, _ := l.Open(limit.Who{Subject: fmt.Sprintf("a-team-with-a-long-name-%06d", i)})
				open = append(open, stream)
			}
			redis := &counting{}
			redis.fails.Store(c.never)
			s := Start(redis, "0:", l, slog.New(slog.NewTextHandler(io.Discard, nil)))
			var another []limit.Stream
			for range 50 {
				time.Sleep(100 * time.Millisecond) // the bubble's
				who := limit.Who{Subject: "another"}
				switch {
				case c.calls:
					l.Request(who)
				case c.streams && len(another) == 0:
					stream, _ := l.Open(who)
					another = append(another, stream)
				case c.streams:
					another[0].Close()
					another = nil
				}
				time.Sleep(100 * time.Millisecond)
			}
			s.Close()
			if n := redis.messages.Load(); n < c.want-1 || n > c.want+1 {
				t.Errorf("%s: %d messages in 10 s, %d bytes; want %d", c.what, n, redis.bytes.Load(), c.want)
			}
			for _, stream := range append(open, another...) {
				stream.Close()
			}
		})
	}
}

// What was told in vain may have been heard all the same: that it is over is told, too.
func TestWhatMayHaveBeenHeardIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(auth.Limits{Streams: 3}, auth.Limits{})
		stream, _ := l.Open(limit.Who{Subject: "x"})
		redis := &counting{}
		redis.fails.Store(true)
		s := Start(redis, "0:", l, slog.New(slog.NewTextHandler(io.Discard, nil)))
		defer s.Close()
		time.Sleep(interval + interval/2) // the bubble's
		stream.Close()
		redis.fails.Store(false)
		told := redis.messages.Load()
		time.Sleep(longestInterval + interval)
		if n := redis.messages.Load(); told != 1 || n != told+1 {
			t.Errorf("%d messages while there was a stream, and %d when it had gone", told, n-told)
		}
		time.Sleep(2 * longestInterval)
		if n := redis.messages.Load(); n != told+1 {
			t.Errorf("that there is nothing is told %d times", n-told)
		}
	})
}

// A gateway that begins to listen hears of streams that have been there for long.
func TestWhoBeginsToListenHearsOfWhatStays(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	heard := make(chan string, 100)
	connect := func() Redis {
		client, err := redis.NewClient(redis.Config{Addresses: []string{server.Addr}})
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	l := limit.New(auth.Limits{Streams: 3}, auth.Limits{})
	stream, _ := l.Open(limit.Who{Subject: "x"})
	defer stream.Close()
	s := Start(connect(), "0:", l, slog.New(slog.NewTextHandler(io.Discard, nil)))
	defer s.Close()
	other := connect()
	defer other.Close()
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- other.Listen(ctx, s.channel, func(m string) { heard <- m }) }()
		if m := <-heard; !strings.Contains(m, `"x"`) {
			t.Errorf("%q", m)
		}
		cancel()
		<-ended
		for len(heard) > 0 {
			<-heard
		}
	}
}

func TestNonsenseOnTheChannelIsIgnored(t *testing.T) {
	l := limit.New(auth.Limits{Streams: 1, Requests: 1}, auth.Limits{})
	s := &Share{limiter: l, name: "me"}
	for _, message := range []string{"", "null", "[]", "{", `{"gateway":"me","keys":{"x":{"s":5}}}`, `{"gateway":"a","keys":{"x":{"s":-5,"r":-1,"re":9223372036854775807,"c":9223372036854775807,"ce":-7}}}`} {
		s.heard(message)
	}
	if _, r := l.Open(limit.Who{Subject: "x"}); r != nil {
		t.Errorf("%+v", r)
	}
	if r := l.Request(limit.Who{Subject: "x"}); r != nil {
		t.Errorf("%+v", r)
	}
}

func FuzzHeard(f *testing.F) {
	f.Add(string(`{"gateway":"a","keys":{"x":{"r":1,"re":1000,"s":2}},"sandboxes":{"y":{"c":1,"ce":5}}}`))
	f.Fuzz(func(t *testing.T, message string) {
		l := limit.New(auth.Limits{Streams: 1, Requests: 1000}, auth.Limits{})
		s := &Share{limiter: l, name: "me"}
		s.heard(message)
		s.heard(message)
		l.Report()
		// Nobody who was not spoken of is bounded by it.
		if l.Request(limit.Who{Subject: "nobody else could have this name"}) != nil {
			t.Fatal("refused")
		}
	})
}
