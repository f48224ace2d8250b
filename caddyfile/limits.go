package e2bcaddyfile

import (
	"errors"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-e2b/gateway/auth"
)

// LimitsConfig is how much one key, and what is done with one sandbox, may take
// of the gateway. A missing limit is none, but for Headers.
//
// Gateways that use the same Redis, that of the keys or else the first one of a
// registry, tell each other what they have admitted, five times a second if that
// has changed, so that a limit holds for all of them together. It needs the right
// to PUBLISH and SUBSCRIBE on channels "e2b-gateway:limits:*". Without it, or
// without Redis, each counts for itself.
type LimitsConfig struct {
	// Key bounds what is done with all keys of one subject. A key may have
	// limits of its own, which replace these. Default: none.
	Key *auth.Limits `json:"key,omitempty"`

	// Sandbox bounds what is done with one sandbox, by whomever. It has no
	// creates. Default: none.
	Sandbox *auth.Limits `json:"sandbox,omitempty"`

	// Headers is the longest that the request line and the headers of a request
	// may be together, in bytes. Longer ones are answered with 431. Servers with
	// the handler e2b let twice as much in, unless their max_header_size says
	// otherwise, which Caddy's default of 16 KiB does not, even if it is written
	// down: beyond it a client gets a line of text, and the connection ends. A
	// negative value leaves it to max_header_size. Default: 64 KiB.
	Headers int64 `json:"headers,omitempty"`
}

// parseLimits reads the limits. Syntax:
//
//	limits {
//	    key {
//	        streams  <number>|off
//	        requests <number>|off # a second
//	        creates  <number>|off # a minute
//	        body     <size>|off
//	    }
//	    sandbox {
//	        streams  <number>|off
//	        requests <number>|off
//	        body     <size>|off
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
			return orOff(d, func() { l.Headers = -1 }, func() error { return size(d, &l.Headers) })
		default:
			return unknown(d, option, "key", "sandbox", "headers")
		}
	})
	return l, err
}

func parseLimit(d *caddyfile.Dispenser, known ...string) (*auth.Limits, error) {
	if d.NextArg() {
		return nil, d.Errf("takes no argument, but %q follows", d.Val())
	}
	l := new(auth.Limits)
	err := eachOption(d, func(option string) error {
		if !slices.Contains(known, option) {
			return unknown(d, option, known...)
		}
		return limitOption(d, option, l)
	})
	return l, err
}

// limitOption reads one limit, or "off" for none.
func limitOption(d *caddyfile.Dispenser, option string, l *auth.Limits) error {
	switch option {
	case "streams":
		return orOff(d, func() { l.Streams = -1 }, func() error { return number(d, &l.Streams, 1, 1_000_000_000) })
	case "requests":
		return rate(d, &l.Requests)
	case "creates":
		return rate(d, &l.Creates)
	default:
		return orOff(d, func() { l.Body = -1 }, func() error { return size(d, &l.Body) })
	}
}

// rate reads a positive number or "off", which is -1.
func rate(d *caddyfile.Dispenser, to *float64) error {
	option := d.Val()
	return orOff(d, func() { *to = -1 }, func() error {
		value, err := word(d)
		if err != nil {
			return err
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n >= auth.LowestRate && n <= auth.HighestRate) { // also when it is no number
			return d.Errf("%s: %q is not a number from %v to %.0f", option, value, auth.LowestRate, auth.HighestRate)
		}
		*to = n
		return nil
	})
}

func (l *LimitsConfig) check() error {
	if l == nil {
		return nil
	}
	for _, of := range []*auth.Limits{l.Key, l.Sandbox} {
		if of == nil {
			continue
		}
		if err := of.Check(); err != nil {
			return err
		}
	}
	if l.Sandbox != nil && l.Sandbox.Creates != 0 {
		return errors.New("limits: a sandbox makes no sandboxes: creates belongs to key")
	}
	return nil
}
