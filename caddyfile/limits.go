package e2bcaddyfile

import (
	"errors"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// LimitsConfig is how much one key, and what is done with one sandbox, may take
// of the gateway. A missing limit is none, but for Headers.
//
// With a Redis registry, the gateways that use the same Redis tell each other
// what they have admitted, five times a second, so that a limit holds for all of
// them together. It needs the right to PUBLISH and SUBSCRIBE on the channel
// "e2b-gateway:limits". Without it, or without Redis, each counts for itself.
type LimitsConfig struct {
	// Key bounds what is done with all keys of one subject. A key may have
	// limits of its own, which replace these.
	Key *LimitConfig `json:"key,omitempty"`

	// Sandbox bounds what is done with one sandbox, by whomever. It has no
	// creates.
	Sandbox *LimitConfig `json:"sandbox,omitempty"`

	// Headers is the longest that the request line and the headers of a request
	// may be together, in bytes. Longer ones are answered with 431. A negative
	// value leaves it to Caddy's max_header_size. Default: 64 KiB.
	Headers int64 `json:"headers,omitempty"`
}

// LimitConfig is one set of limits.
type LimitConfig struct {
	// Streams is how many streams may be open at a time: commands, watches,
	// terminals, WebSockets.
	Streams int `json:"streams,omitempty"`
	// Requests is how many calls may be made a second, on average and at once.
	Requests float64 `json:"requests,omitempty"`
	// Creates is how many sandboxes may be made a minute, on average and at
	// once.
	Creates float64 `json:"creates,omitempty"`
	// Body is the longest request body, in bytes. Longer ones are answered with
	// 413.
	Body int64 `json:"body,omitempty"`
}

// parseLimits reads the limits. Syntax:
//
//	limits {
//	    key {
//	        streams  <number>
//	        requests <number>     # a second
//	        creates  <number>     # a minute
//	        body     <size>
//	    }
//	    sandbox {
//	        streams  <number>
//	        requests <number>
//	        body     <size>
//	    }
//	    headers <size>|off
//	}
func parseLimits(d *caddyfile.Dispenser) (*LimitsConfig, error) {
	if d.NextArg() {
		return nil, d.Errf("limits takes no argument, but %q follows", d.Val())
	}
	l := new(LimitsConfig)
	err := eachOption(d, func(option string) (err error) {
		switch option {
		case "key":
			l.Key, err = parseLimit(d, "streams", "requests", "creates", "body")
			return err
		case "sandbox":
			l.Sandbox, err = parseLimit(d, "streams", "requests", "body")
			return err
		case "headers":
			return sizeOrOff(d, &l.Headers)
		default:
			return unknown(d, option, "key", "sandbox", "headers")
		}
	})
	return l, err
}

func parseLimit(d *caddyfile.Dispenser, known ...string) (*LimitConfig, error) {
	if d.NextArg() {
		return nil, d.Errf("takes no argument, but %q follows", d.Val())
	}
	l := new(LimitConfig)
	err := eachOption(d, func(option string) error {
		switch {
		case option == "streams":
			return number(d, &l.Streams, 1, 100_000_000)
		case option == "requests":
			return rate(d, &l.Requests)
		case option == "creates" && slices.Contains(known, option):
			return rate(d, &l.Creates)
		case option == "body":
			return size(d, &l.Body)
		default:
			return unknown(d, option, known...)
		}
	})
	return l, err
}

// rate reads a number above zero, which may have a fraction.
func rate(d *caddyfile.Dispenser, to *float64) error {
	option := d.Val()
	value, err := word(d)
	if err != nil {
		return err
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || checkRate(n) != nil || n == 0 {
		return d.Errf("%s: %q is not a number from %g to %g", option, value, lowestRate, highestRate)
	}
	*to = n
	return nil
}

const (
	lowestRate  = 0.001
	highestRate = 1e9
)

func checkRate(n float64) error {
	if n != 0 && !(n >= lowestRate && n <= highestRate) { // also when it is no number
		return errors.New("limits: requests and creates are numbers from 0.001 to 1000000000")
	}
	return nil
}

func (l *LimitsConfig) check() error {
	if l == nil {
		return nil
	}
	for _, c := range []*LimitConfig{l.Key, l.Sandbox} {
		if c == nil {
			continue
		}
		if c.Streams < 0 || c.Body < 0 {
			return errors.New("limits: streams and body must not be negative")
		}
		for _, n := range []float64{c.Requests, c.Creates} {
			if err := checkRate(n); err != nil {
				return err
			}
		}
	}
	if l.Sandbox != nil && l.Sandbox.Creates != 0 {
		return errors.New("limits: a sandbox makes no sandboxes: creates belongs to key")
	}
	return nil
}

// sizeOrOff reads a positive number of bytes or "off", which is -1.
func sizeOrOff(d *caddyfile.Dispenser, to *int64) error {
	if option := d.Val(); d.CountRemainingArgs() == 1 {
		d.NextArg()
		if d.Val() == "off" {
			*to = -1
			return noBlock(d, option)
		}
		d.Prev()
	}
	return size(d, to)
}
