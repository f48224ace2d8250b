package e2bcaddyfile

import (
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-e2b/gateway/auth"
)

// KeysOffConfig is the store "off": there are no keys, everybody gets in and may
// do everything. It needs no configuration.
type KeysOffConfig struct{}

// UnmarshalCaddyfile reads the store. Syntax:
//
//	keys off
func (*KeysOffConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the store's name
	return nothing(d, "keys "+d.Val())
}

// StaticKeysConfig is the store "static": a table in the config. It holds the
// digests of keys and never keys.
type StaticKeysConfig struct {
	// Keys are the records. With none nobody gets in. Default: none.
	Keys []auth.Record `json:"keys,omitempty"`
}

// UnmarshalCaddyfile reads the store. Syntax:
//
//	keys static {
//	    key <digest> <subject> [{        # any number
//	        scopes   control|data|admin…
//	        expires  <time>              # RFC 3339
//	        disabled
//	        user_id | namespace | experiment_id | cluster <value>
//	        streams  <number>|off        # limits, where they differ from the gateway's
//	        requests <a second>|off
//	        creates  <a minute>|off
//	        body     <size>|off
//	    }]
//	}
func (s *StaticKeysConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the store's name
	if d.NextArg() {
		return d.Err("keys static takes no argument, its keys are given in a block: keys static { key <digest> <subject> }")
	}
	return eachOption(d, func(option string) error {
		if option != "key" {
			return unknown(d, option, "key")
		}
		return s.parseKey(d)
	}, "key")
}

func (s *StaticKeysConfig) parseKey(d *caddyfile.Dispenser) error {
	at := here(d)
	var r auth.Record
	if !d.Args(&r.Digest, &r.Subject) || d.NextArg() {
		return d.Err("key takes a digest and a subject: key <digest> <subject> [{ … }]")
	}
	if err := eachOption(d, func(option string) error { return parseKeyOption(d, option, &r) }); err != nil {
		return err
	}
	s.Keys = append(s.Keys, r)
	if _, err := auth.NewTable(s.Keys); err != nil {
		return at.errf("keys static: %v", err)
	}
	return nil
}

func parseKeyOption(d *caddyfile.Dispenser, option string, r *auth.Record) error {
	switch option {
	case "scopes":
		return words(d, &r.Scopes, func(scope string) error {
			_, err := auth.ParseScopes([]string{scope})
			return err
		})
	case "expires":
		value, err := word(d)
		if err != nil {
			return err
		}
		if r.Expires, err = time.Parse(time.RFC3339, value); err != nil {
			return d.Errf("expires: %q is not a time in RFC 3339 such as 2027-01-31T00:00:00Z", value)
		}
		return nil
	case "disabled":
		r.Disabled = true
		return nothing(d, option)
	case "user_id":
		return setWord(d, &r.Tenant.UserID)
	case "namespace":
		return setWord(d, &r.Tenant.Namespace)
	case "experiment_id":
		return setWord(d, &r.Tenant.ExperimentID)
	case "cluster":
		return setWord(d, &r.Tenant.Cluster)
	case "streams", "requests", "creates", "body":
		return limitOption(d, option, &r.Limits)
	default:
		return unknown(d, option, "scopes", "expires", "disabled", "user_id", "namespace", "experiment_id", "cluster",
			"streams", "requests", "creates", "body")
	}
}

// Check reports the first record that cannot be read.
func (s *StaticKeysConfig) Check() error {
	_, err := auth.NewTable(s.Keys)
	return err
}
