package e2bcaddyfile

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-e2b/gateway/auth"
)

// KeysNamespace is the namespace of the modules that are stores of API keys.
// The part of a module's id after it is the name of the store.
const KeysNamespace = "e2b.keys"

// noKeys is the name of the store that lets everybody in.
const noKeys = "off"

// errAccess is what a contradiction of keys with other options wraps: it is
// reported where keys stands.
var errAccess = errors.New("keys")

// errNoKeys stops a gateway whose operator has not said who gets in.
var errNoKeys = errors.New("e2b needs to know who gets in: keys static|file|redis|http { … }; " +
	"or keys off, which lets everybody do everything, as ROCK does")

// parseTokens reads how access tokens are made. Syntax:
//
//	tokens passthrough
//	tokens {
//	    key <id> <secret>                # at least one; the first makes tokens, all are accepted
//	}
func parseTokens(d *caddyfile.Dispenser) (*TokensConfig, error) {
	at := here(d)
	t := new(TokensConfig)
	if d.NextArg() {
		if d.Val() != "passthrough" {
			return nil, d.Errf("tokens: %q is not passthrough; keys are given in a block: tokens { key <id> <secret> }", d.Val())
		}
		t.Passthrough = true
		return t, nothing(d, "tokens passthrough")
	}
	err := eachOption(d, func(option string) error {
		if option != "key" {
			return unknown(d, option, "key")
		}
		key := new(TokenKeyConfig)
		if !d.NextArg() {
			return d.Err("key takes an id and a secret: key <id> <secret>")
		}
		if key.ID = d.Val(); !auth.ValidTokenKeyID(key.ID) {
			// Not quoted: the secret may have come first.
			return d.Err("key: the id in front of the secret is 1 to 32 of a-z 0-9 . -")
		}
		if !d.NextArg() {
			return d.Err("key takes an id and a secret: key <id> <secret>")
		}
		key.Secret = d.Val()
		if err := checkSecret("key", key.Secret); err != nil {
			return d.Err(err.Error())
		}
		if d.NextArg() {
			return d.Err("key takes an id and a secret and nothing more")
		}
		if slices.ContainsFunc(t.Keys, func(other *TokenKeyConfig) bool { return other.ID == key.ID }) {
			return d.Errf("key %s is given twice", key.ID)
		}
		t.Keys = append(t.Keys, key)
		return noBlock(d, "key")
	}, "key")
	if err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, at.errf("%v", err)
	}
	return t, nil
}

func (t *TokensConfig) check() error {
	switch {
	case t.Passthrough && len(t.Keys) > 0:
		return errors.New("tokens: passthrough makes no tokens and needs no keys")
	case !t.Passthrough && len(t.Keys) == 0:
		return errors.New("tokens needs a key, tokens { key <id> <secret> }, or passthrough")
	}
	seen := map[string]bool{}
	for _, key := range t.Keys {
		switch {
		case key == nil:
			return errors.New("tokens: a key is null")
		case !auth.ValidTokenKeyID(key.ID):
			return errors.New("tokens: the id of a key is 1 to 32 of a-z 0-9 . -")
		case seen[key.ID]:
			return fmt.Errorf("tokens: key %s is given twice", key.ID)
		case key.Secret == "":
			return fmt.Errorf("tokens: key %s has no secret", key.ID)
		case !hasPlaceholder(key.Secret) && len(key.Secret) < auth.MinTokenSecret:
			return fmt.Errorf("tokens: the secret of key %s has %d bytes, at least %d are needed: head -c 32 /dev/urandom | base64",
				key.ID, len(key.Secret), auth.MinTokenSecret)
		}
		seen[key.ID] = true
	}
	return nil
}

// checkAccess reports the first contradiction in who gets in.
func (c *Config) checkAccess() error {
	switch {
	case c.KeysRaw == nil:
		return errNoKeys
	case !slices.Contains([]string{"", "deny", "allow"}, c.Unowned):
		return fmt.Errorf("unowned is deny or allow, not %q", c.Unowned)
	case !slices.Contains([]string{"", "public", "private"}, c.Health):
		return fmt.Errorf("health is public or private, not %q", c.Health)
	}
	if !slices.Contains([]string{"", "off", "admin"}, c.RockAPI) {
		return fmt.Errorf("rock_api is off or admin, not %q", c.RockAPI)
	}
	off := moduleIn(c.KeysRaw, "store") == noKeys
	switch {
	case off && (c.Tokens != nil || c.Unowned != "" || c.Health != ""):
		return fmt.Errorf("%w off lets everybody in: tokens, unowned and health are for gateways with keys", errAccess)
	case off && c.RockAPI == "admin":
		return fmt.Errorf("%w off knows no admins: rock_api admin is for gateways with keys", errAccess)
	case off:
		return nil
	case c.Tokens == nil:
		return fmt.Errorf("%w needs tokens, for calls to sandboxes: tokens { key <id> <secret> }; "+
			"or tokens passthrough, where a sandbox's token is the API key of its owner", errAccess)
	}
	return c.Tokens.check()
}

// CheckSecrets reports the first secret that is written out in the config
// itself, without quoting it. It is for configs that are not expanded yet; the
// parser of the Caddyfile does the same at the line.
func (c *Config) CheckSecrets() error {
	for _, cluster := range c.Clusters {
		if cluster == nil {
			continue // Check says so
		}
		if err := checkSecret("aes_key", cluster.AESKey); err != nil {
			return fmt.Errorf("cluster %q: %w", cluster.Name, err)
		}
	}
	if c.Tokens == nil {
		return nil
	}
	for _, key := range c.Tokens.Keys {
		if key == nil {
			continue // Check says so
		}
		if err := checkSecret("key", key.Secret); err != nil {
			return fmt.Errorf("tokens: %w", err)
		}
	}
	return nil
}

// checkAESKey reports a key that ROCK would not take either. It does not quote
// it.
func checkAESKey(key string) error {
	if b, err := base64.StdEncoding.DecodeString(key); err != nil || len(b) != 32 {
		return errors.New("aes_key is not base64 of 32 bytes, as ROCK's aes_encrypt_key is")
	}
	return nil
}
