package module

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

// expansion replaces placeholders in options. One that is unknown or empty is
// an error: a password that silently became "" is worse than no start.
type expansion struct {
	replacer *caddy.Replacer
	err      error
}

func newExpansion() *expansion { return &expansion{replacer: caddy.NewReplacer()} }

// texts expands each option in place and remembers the first that fails.
func (e *expansion) texts(option string, values ...*string) {
	for _, v := range values {
		if *v == "" || e.err != nil {
			continue
		}
		out, err := e.replacer.ReplaceOrErr(*v, true, true)
		if err != nil {
			e.err = fmt.Errorf("%s: %w", option, err)
			return
		}
		*v = out
	}
}

// secrets expands secrets, which editors and shells like to end with a newline.
func (e *expansion) secrets(option string, values ...*string) {
	for _, v := range values {
		given := *v != ""
		e.texts(option, v)
		*v = strings.TrimSpace(*v)
		if given && *v == "" && e.err == nil {
			e.err = fmt.Errorf("%s: the secret is empty", option)
		}
	}
}

func (e *expansion) list(option string, values []string) {
	for i := range values {
		e.texts(option, &values[i])
	}
}

func (e *expansion) tls(t *e2bcaddyfile.TLSConfig) {
	if t == nil {
		return
	}
	e.texts("tls ca", &t.CA)
	e.texts("tls cert", &t.Cert)
	e.texts("tls key", &t.Key)
	e.texts("tls server_name", &t.ServerName)
}

func expandConfig(c *e2bcaddyfile.Config) error {
	e := newExpansion()
	for _, cluster := range c.Clusters {
		if cluster == nil {
			continue // Check says so
		}
		e.list("admin", cluster.Admin)
		e.list("proxy", cluster.Proxy)
		e.list("allow", cluster.Allow)
		e.list("ports", cluster.Ports)
		e.list("templates", cluster.Templates)
		e.secrets("aes_key", &cluster.AESKey)
		e.tls(cluster.TLS)
		if e.err != nil {
			return fmt.Errorf("cluster %q: %w", cluster.Name, e.err)
		}
	}
	if e.list("domain", c.Domains); e.err != nil {
		return e.err
	}
	return e.tokens(c.Tokens)
}

// tokens expands the secrets that tokens are made with.
func (e *expansion) tokens(c *e2bcaddyfile.TokensConfig) error {
	if c == nil {
		return nil
	}
	for _, key := range c.Keys {
		if key == nil {
			continue // Check says so
		}
		if e.secrets("tokens", &key.Secret); e.err != nil {
			return e.err
		}
	}
	return nil
}
