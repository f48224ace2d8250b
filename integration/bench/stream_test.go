package bench

import (
	"errors"
	"fmt"
	"sync"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
)

const (
	// streamsAtOnce is how many streams a turn has.
	streamsAtOnce = 4
	// streamMessages is how many messages each has.
	streamMessages = 16 << 10
)

// protocols are the transports as the tables call them.
var protocols = map[harness.Transport]string{harness.Cleartext: "HTTP/1.1", harness.TLS2: "HTTP/2 over TLS"}

const startPath = "/process.Process/Start"

// startMessage is what a stream's request sends.
var startMessage = string(envelope.Append(nil, 0, []byte(`{"process":{"cmd":"/bin/bash","args":["-l","-c","cat big.txt"]}}`)))

// streams measures the relay of streams that are as fast as they can be.
func streams(s *scene, r *report) {
	for _, transport := range []harness.Transport{harness.Cleartext, harness.TLS2} {
		all := s.start(transport, gateway, stock, library, nginx, haproxy)
		readers := map[*contestant][]streamer{}
		for _, c := range all {
			readers[c] = s.connectStreamers(c, transport, streamMessages)
			s.stream(c, readers[c], streamMessages) // warms it up
		}
		perSecond, busy := samples{}, samples{}
		takeTurns(all, *rounds, func(t turn) {
			c := t.contestant
			d := s.during(c, func() { s.stream(c, readers[c], streamMessages) })
			perSecond.add(t, float64(streamsAtOnce*streamMessages*len(message))/d.cpu.Seconds())
			busy.add(t, d.busy())
		})
		t := table{
			title: "Streams of messages of 1 KiB, " + protocols[transport],
			text: fmt.Sprintf("%d streams at a time of %d Connect envelopes each, which the upstream sends in chunks of their own, %d to a segment, "+
				"as fast as they are taken.", streamsAtOnce, streamMessages, inBatch),
			head: []string{"", "MB per CPU-second", "CPU per message", "the gateway's MB over them", "busy"},
		}
		for _, c := range all {
			k := c.kind
			t.rows = append(t.rows, []string{string(k), mega(perSecond.of(k)), micros(float64(len(message)) / perSecond.of(k)),
				times(perSecond.ratio(gateway, k)), share(busy.of(k))})
		}
		r.add(t)
		r.promise(promise{text: "streams of 1 KiB messages, " + protocols[transport] + ": MB per CPU-second over stock Caddy's",
			value: perSecond.ratio(gateway, stock), least: 1.1, write: times})
	}
}

// streamer is a connection that takes one stream after the other.
type streamer interface{ stream(messages int) error }

func (s *scene) connectStreamers(c *contestant, transport harness.Transport, messages int) []streamer {
	s.Helper()
	headers := headersOf(sandbox, "application/connect+json", fmt.Sprint("stream ", messages))
	all := make([]streamer, streamsAtOnce)
	for i := range all {
		if transport == harness.TLS2 {
			k, err := connectH2(c)
			if err != nil {
				s.Fatal(err)
			}
			s.Cleanup(func() { k.conn.Close() })
			k.prepare(c, startPath, headers, startMessage)
			all[i] = k
			continue
		}
		k, err := connectH1(c)
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { k.Close() })
		k.request = requestH1(c, "POST", startPath, headers, len(startMessage), startMessage)
		k.in.buf = make([]byte, 64<<10)
		all[i] = k
	}
	return all
}

// stream takes one stream of so many messages on each connection.
func (s *scene) stream(c *contestant, from []streamer, messages int) {
	s.Helper()
	errs := make([]error, len(from))
	var running sync.WaitGroup
	for i, k := range from {
		running.Go(func() { errs[i] = k.stream(messages) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatalf("%s: %v", c.kind, err)
	}
}

func (c *client) stream(messages int) error {
	if _, err := c.send(); err != nil {
		return err
	}
	want := streamOf(messages)
	if err := c.in.chunked(want.take); err != nil {
		return err
	}
	if !want.done() {
		return errOtherAnswer
	}
	return nil
}

func (k *clientH2) stream(messages int) error {
	if err := k.send(); err != nil {
		return err
	}
	want := streamOf(messages)
	for {
		_, data, ended, err := k.receive()
		if err == nil {
			err = want.take(data)
		}
		switch {
		case err != nil:
			return err
		case ended && !want.done():
			return errOtherAnswer
		case ended:
			return nil
		}
	}
}
