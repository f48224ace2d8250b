package e2bcaddyfile

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-e2b/gateway/auth/callback"
)

// FileKeysConfig is the store "file": a JSON file that is read again within a
// second of any change.
type FileKeysConfig struct {
	// Path of the file. It may hold placeholders. Required.
	Path string `json:"path"`
}

// UnmarshalCaddyfile reads the store. Syntax:
//
//	keys file <path>
func (f *FileKeysConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the store's name
	if !d.Args(&f.Path) || f.Path == "" || d.NextArg() {
		return d.Err("keys file takes one path: keys file <path>")
	}
	return noBlock(d, "keys file")
}

// Check reports a missing path.
func (f *FileKeysConfig) Check() error {
	if f.Path == "" {
		return errors.New("needs the path of the file")
	}
	return nil
}

// RedisKeysConfig is the store "redis": one hash for each key.
type RedisKeysConfig struct {
	RedisConnection
	// Prefix stands before the digest in the name of a hash.
	// Default: "e2b-gateway:key:".
	Prefix string `json:"prefix,omitempty"`
	MemoryConfig
}

// UnmarshalCaddyfile reads the store. Syntax:
//
//	keys redis {
//	    …                                # see RedisConnection.parseOption
//	    prefix    <text>
//	    questions <number>
//	    size      <entries>
//	}
func (r *RedisKeysConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the store's name
	at := here(d)
	if d.NextArg() {
		return d.Errf("keys redis takes no argument, but %q follows", d.Val())
	}
	err := eachOption(d, func(option string) error {
		switch option {
		case "prefix":
			return setWord(d, &r.Prefix)
		case "questions", "size":
			return r.MemoryConfig.parseOption(d, option)
		default:
			return r.RedisConnection.parseOption(d, option, "prefix", "questions", "size")
		}
	})
	if err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return at.errf("keys redis: %v", err)
	}
	return nil
}

// Check reports the first contradiction in the config.
func (r *RedisKeysConfig) Check() error {
	if err := r.RedisConnection.check(); err != nil {
		return err
	}
	return r.MemoryConfig.check()
}

// HTTPKeysConfig is the store "http": a server of the operator's that is asked
// GET <url>/<digest>. It answers with 200 and the record of the key in JSON, or
// with 404 when there is none. Anything else means that it cannot say.
type HTTPKeysConfig struct {
	// URL is what the digest is appended to, after a slash. It may hold
	// placeholders. Required.
	URL string `json:"url"`
	// Bearer is sent as Authorization: Bearer. It must be a placeholder:
	// {env.NAME} or {file./path}. Default: none.
	Bearer string `json:"bearer,omitempty"`
	// Timeout bounds one question; at most 900ms. Default: 900ms.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// TLS is how an https server is verified. Default: by the system's
	// authorities, at least TLS 1.2.
	TLS *TLSConfig `json:"tls,omitempty"`
	MemoryConfig
}

// UnmarshalCaddyfile reads the store. Syntax:
//
//	keys http <url> [{
//	    bearer    <secret>               # a placeholder
//	    timeout   <duration>
//	    tls { … }                        # see parseTLS
//	    questions <number>
//	    size      <entries>
//	}]
func (h *HTTPKeysConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the store's name
	at := here(d)
	if !d.Args(&h.URL) || d.NextArg() {
		return d.Err("keys http takes one URL: keys http <url> [{ … }]")
	}
	err := eachOption(d, func(option string) (err error) {
		switch option {
		case "bearer":
			return secret(d, &h.Bearer)
		case "timeout":
			return duration(d, &h.Timeout)
		case "tls":
			h.TLS, err = parseTLS(d)
			return err
		case "questions", "size":
			return h.MemoryConfig.parseOption(d, option)
		default:
			return unknown(d, option, "bearer", "timeout", "tls", "questions", "size")
		}
	})
	if err != nil {
		return err
	}
	if err := h.Check(); err != nil {
		return at.errf("keys http: %v", err)
	}
	return nil
}

// Check reports the first contradiction in the config.
func (h *HTTPKeysConfig) Check() error {
	if !hasPlaceholder(h.URL) {
		if err := callback.CheckURL(h.URL); err != nil {
			return err
		}
	}
	if h.Timeout < 0 {
		return errors.New("timeout must not be negative")
	}
	if h.TLS != nil {
		if err := h.TLS.check(); err != nil {
			return err
		}
	}
	return h.MemoryConfig.check()
}

// CheckSecrets reports a secret that is written out, without quoting it. It is
// for configs that are not expanded yet.
func (h *HTTPKeysConfig) CheckSecrets() error { return checkSecret("bearer", h.Bearer) }

// MemoryConfig tunes the memory of answers in front of a store that is asked
// over the network. An answer is used for 900ms from the moment at which the
// question was put, so that a key which is taken back is void everywhere within
// a second, and a key in use is asked about again before that.
type MemoryConfig struct {
	// Questions is how many questions are put at a time about keys that have
	// never been seen to exist. Those about the others have as many places of
	// their own. Default: 16.
	Questions int `json:"questions,omitempty"`
	// Size is how many keys are remembered, and again how many digests that
	// are no key's. Default: 16384.
	Size int `json:"size,omitempty"`
}

func (m *MemoryConfig) parseOption(d *caddyfile.Dispenser, option string) error {
	if option == "size" {
		return number(d, &m.Size, 1, 10_000_000)
	}
	return number(d, &m.Questions, 1, 10_000)
}

func (m *MemoryConfig) check() error {
	if m.Questions < 0 || m.Size < 0 {
		return fmt.Errorf("questions and size must not be negative")
	}
	return nil
}
