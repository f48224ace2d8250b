package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/auth"
)

// access looks at who gets in.
func (x *examination) access(ctx context.Context) {
	x.store(ctx)
	x.tokenKeys()
	x.secretFiles()
}

func (x *examination) store(ctx context.Context) {
	k := x.Keys
	where := "keys " + k.Store
	switch {
	case k.Store == "off":
		for _, s := range x.view.servers {
			if s.gateway() && s.public() {
				x.found(openGateway, "server "+s.name, "It listens on %s, with keys off.", strings.Join(s.Listen, ", "))
			}
		}
		return
	case k.Err != nil:
		x.found(keysUnreadable, where, "%v", k.Err)
		return
	case k.Listed:
		x.valid(where)
	case k.Ask != nil:
		x.askKeys(ctx, where)
	}
	if info, err := os.Stat(k.File); k.File != "" && err == nil && info.Mode().Perm()&0o002 != 0 {
		x.found(keysWritable, k.File, "Its mode is %v.", info.Mode().Perm())
	}
}

// valid counts the keys that open something.
func (x *examination) valid(where string) {
	good := 0
	for _, key := range x.Keys.Table {
		if key.Valid(time.Now()) == nil {
			good++
		}
	}
	if good == 0 {
		x.found(keysEmpty, where, "It has %d keys, and none is valid.", len(x.Keys.Table))
	}
}

// askKeys asks for a digest that is no key's.
func (x *examination) askKeys(ctx context.Context, where string) {
	switch _, err := x.Keys.Ask.Lookup(ctx, auth.Digest{}); {
	case err == nil:
		x.found(keysAnything, where, "It has an answer for the digest of zeros.")
	case !errors.Is(err, auth.ErrUnknownKey):
		x.found(keysUnreadable, where, "%v", err)
	}
}

// fewBytes is how many different bytes a secret from a random source has at least:
// 32 random bytes in base64 or hexadecimal have more.
const fewBytes = 10

func (x *examination) tokenKeys() {
	if x.App.Tokens == nil {
		return
	}
	if x.App.Tokens.Passthrough {
		x.found(passthrough, "tokens", "tokens passthrough is set.")
	}
	owner := map[string]string{}
	for _, key := range x.App.Tokens.Keys {
		if key == nil {
			continue // the config is refused
		}
		where := "token key " + key.ID
		if other, ok := owner[key.Secret]; ok {
			x.found(tokenKeyTwice, where, "It has the secret of key %s.", other)
		}
		owner[key.Secret] = key.ID
		if different := differentBytes(key.Secret); different < fewBytes {
			x.found(tokenKeyWeak, where, "It is made of %d different characters.", different)
		}
	}
}

func differentBytes(s string) int {
	b := []byte(s)
	slices.Sort(b)
	return len(slices.Compact(b))
}

// fileSecret is a placeholder for the content of a file.
var fileSecret = regexp.MustCompile(`\{file\.([^{}]+)\}`)

// secretFiles looks at the files that the config reads secrets from.
func (x *examination) secretFiles() {
	var config struct {
		Apps struct {
			E2B json.RawMessage `json:"e2b"`
		} `json:"apps"`
	}
	_ = json.Unmarshal(x.Config, &config)
	seen := map[string]bool{}
	for _, m := range fileSecret.FindAllStringSubmatch(string(config.Apps.E2B), -1) {
		var path string
		if json.Unmarshal([]byte(`"`+m[1]+`"`), &path) != nil || seen[path] {
			continue
		}
		seen[path] = true
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 && info.Mode().IsRegular() {
			x.found(secretReadable, path, "Its mode is %v.", fs.FileMode(info.Mode().Perm()))
		}
	}
}
