package e2bcaddyfile

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// ListenerConfig is the configuration of the listener wrapper
// "caddy.listeners.e2b". A value that is zero or missing has its default. All
// of them concern HTTP/2; over HTTP/1.1 the timeouts of the server hold.
type ListenerConfig struct {
	// MaxConcurrentStreams is how many requests a client may have open on one
	// connection. SDKs open one connection for all sandboxes and keep a stream
	// open for each running command, so it should not be low; 1 to 1,000,000.
	// What a client opens beyond it is reset, the connection stays.
	// Default: 1000.
	MaxConcurrentStreams int `json:"max_concurrent_streams,omitempty"`

	// StreamWindow is how many bytes of one request's body a client may send
	// ahead of who reads it; 64 KiB to less than 4 MiB. Default: 512 KiB.
	StreamWindow int64 `json:"stream_window,omitempty"`

	// ConnectionWindow is the same for all requests of a connection together:
	// the most memory that a connection's unread bodies take. It should be
	// several times StreamWindow, or one upload that a sandbox does not read
	// stops all others; 64 KiB to less than 4 MiB. Default: 3 MiB.
	ConnectionWindow int64 `json:"connection_window,omitempty"`

	// PingInterval is after how long a silent client is asked whether it is
	// still there. Zero or negative means never ("off" in the Caddyfile). With
	// it, clients that are gone are found sooner. But Python's synchronous SDK
	// reads its connection only while the program waits for an event: a program
	// that works on one event for longer than PingInterval and PingTimeout
	// together loses all streams of the connection. So it is only for clients
	// that always read. Without it, TCP keepalive finds a silent machine that is
	// gone.
	// Default: off.
	PingInterval caddy.Duration `json:"ping_interval,omitempty"`

	// PingTimeout is how long it may take to answer. After that the connection
	// is closed and its requests are cancelled. It has no effect without
	// PingInterval. Default: 15s.
	PingTimeout caddy.Duration `json:"ping_timeout,omitempty"`

	// WriteTimeout is how long a client may take no byte of what is sent to
	// it, once the buffers between are full. After that the connection is
	// closed. A client that only stops reading one stream takes the other
	// streams, and is left alone. Default: 5m, which is that of client_stall.
	WriteTimeout caddy.Duration `json:"write_timeout,omitempty"`
}

// The smallest and the largest window that net/http takes.
const (
	smallestWindow = 64 << 10
	largestWindow  = 4<<20 - 1
)

// WithDefaults is the config with its defaults filled in.
func (c ListenerConfig) WithDefaults() ListenerConfig {
	if c.MaxConcurrentStreams == 0 {
		c.MaxConcurrentStreams = 1000
	}
	if c.StreamWindow == 0 {
		c.StreamWindow = 512 << 10
	}
	if c.ConnectionWindow == 0 {
		c.ConnectionWindow = 3 << 20
	}
	c.PingInterval = max(0, c.PingInterval) // off is the default
	if c.PingTimeout == 0 {
		c.PingTimeout = caddy.Duration(15 * time.Second)
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = caddy.Duration(5 * time.Minute)
	}
	return c
}

// UnmarshalCaddyfile reads the wrapper. Syntax:
//
//	e2b {
//	    max_concurrent_streams <number>
//	    stream_window          <size>
//	    connection_window      <size>
//	    ping_interval          <duration>|off
//	    ping_timeout           <duration>
//	    write_timeout          <duration>
//	}
func (c *ListenerConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the wrapper's own name
	at := here(d)
	if d.NextArg() {
		return d.Errf("the listener wrapper e2b takes no argument, but %q follows", d.Val())
	}
	err := eachOption(d, func(option string) error {
		switch option {
		case "max_concurrent_streams":
			return number(d, &c.MaxConcurrentStreams, 1, 1_000_000)
		case "stream_window":
			return size(d, &c.StreamWindow)
		case "connection_window":
			return size(d, &c.ConnectionWindow)
		case "ping_interval":
			return durationOrOff(d, &c.PingInterval)
		case "ping_timeout":
			return duration(d, &c.PingTimeout)
		case "write_timeout":
			return duration(d, &c.WriteTimeout)
		default:
			return unknown(d, option, "max_concurrent_streams", "stream_window", "connection_window",
				"ping_interval", "ping_timeout", "write_timeout")
		}
	})
	if err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return at.errf("%v", err)
	}
	return nil
}

// Check reports a value out of its range.
func (c *ListenerConfig) Check() error {
	full := c.WithDefaults()
	if n := full.MaxConcurrentStreams; n < 1 || n > 1_000_000 {
		return fmt.Errorf("max_concurrent_streams is from 1 to 1000000, not %d", n)
	}
	for name, n := range map[string]int64{"stream_window": full.StreamWindow, "connection_window": full.ConnectionWindow} {
		if n < smallestWindow || n > largestWindow {
			return fmt.Errorf("%s is from %d to %d bytes, not %d", name, smallestWindow, largestWindow, n)
		}
	}
	if full.StreamWindow > full.ConnectionWindow {
		return errors.New("stream_window must not be larger than connection_window")
	}
	if full.PingTimeout < 0 || full.WriteTimeout < 0 {
		return errors.New("ping_timeout and write_timeout must not be negative")
	}
	return nil
}
