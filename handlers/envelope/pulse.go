package envelope

import "sync/atomic"

// Pulse lets a watchdog see, while a body is relayed, whether the source still
// sends and whether the client still takes. It counts and keeps no time: a
// watchdog compares the counts of two moments. The zero value is ready; a nil
// Pulse counts nothing.
type Pulse struct {
	reads, writes atomic.Uint64
	keepalive     atomic.Bool
}

// Reads is how many times the source has delivered bytes.
func (p *Pulse) Reads() uint64 { return p.reads.Load() }

// Writes counts the writes to the client, flush included: it goes up by one
// when a write begins and when it ends, so it is odd while one is under way.
func (p *Pulse) Writes() uint64 { return p.writes.Load() }

// Keepalive reports that the source has sent a keepalive message, so that more
// may be expected.
func (p *Pulse) Keepalive() bool { return p.keepalive.Load() }

func (p *Pulse) read() {
	if p != nil {
		p.reads.Add(1)
	}
}

// write marks the begin of a write, or its end.
func (p *Pulse) write() {
	if p != nil {
		p.writes.Add(1)
	}
}

func (p *Pulse) sawKeepalive() {
	if p != nil {
		p.keepalive.Store(true)
	}
}
