package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/module"
)

// gateway is the running gateway.
type gateway struct {
	url    string
	domain string // with the port, "" without one
	caFile string // the demo's own authority, "" without TLS
	bundle string // the same and the system's

	apiKey    string
	secondKey string // another owner's, "" unless it was asked for
}

// serve starts the gateway in this process, from a Caddyfile as an operator
// would write it.
func serve(o options, dir string, d *deployment) (*gateway, error) {
	listen, err := loopback(o.listen)
	if err != nil {
		return nil, err
	}
	g := &gateway{url: "http://" + listen}
	if o.domain != "" {
		_, port, _ := net.SplitHostPort(listen)
		g.domain = o.domain + ":" + port
		o.tls = true // SDKs speak to hosts below a domain over HTTPS only
	}
	if o.tls {
		g.url = "https://" + listen
		g.caFile = filepath.Join(dir, "caddy", "pki", "authorities", "local", "root.crt")
	}
	access, err := g.access(o, dir)
	if err != nil {
		return nil, err
	}

	adapter := caddyconfig.GetAdapter("caddyfile")
	config, _, err := adapter.Adapt([]byte(g.caddyfile(listen, access, dir, d)), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return nil, err
	}
	if err := checkFree(listen); err != nil {
		return nil, err
	}
	if err := caddy.Load(config, true); err != nil {
		return nil, err
	}
	if o.tls {
		g.bundle = filepath.Join(dir, "ca-bundle.pem")
		if err := writeBundle(g.bundle, g.caFile); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// access makes the API keys and is what the configuration says of them. Keys
// are new with every start, and so is the secret that access tokens are made
// with: nothing of a demo opens the next one.
func (g *gateway) access(o options, dir string) (string, error) {
	g.apiKey = auth.NewKey()
	keys := "key " + auth.DigestOf(g.apiKey).String() + " demo\n"
	if o.secondKey {
		g.secondKey = auth.NewKey()
		keys += "\t\t\tkey " + auth.DigestOf(g.secondKey).String() + " second\n"
	}
	if o.open {
		return "keys off", nil
	}
	// A secret is read from a file or the environment and never written into
	// the configuration. Not the environment: commands in sandboxes inherit it.
	secret := make([]byte, auth.MinTokenSecret)
	_, _ = rand.Read(secret) // never fails, crypto/rand ends the program instead
	file := filepath.Join(dir, "token-key")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(secret)), 0o600); err != nil {
		return "", err
	}
	return `keys static {
			` + keys + `		}
		tokens {
			key demo {file.` + file + `}
		}`, nil
}

// systemRoots are the places where systems keep their authorities.
var systemRoots = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// writeBundle joins the demo's authority and the system's: SSL_CERT_FILE
// replaces what a program trusts, and a shell in which it is set should still
// be able to install a package.
func writeBundle(bundle, caFile string) error {
	all, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	for _, roots := range systemRoots {
		if b, err := os.ReadFile(roots); err == nil {
			all = append(append(all, '\n'), b...)
			break
		}
	}
	return os.WriteFile(bundle, all, 0o600)
}

// grace is how long running commands go on when the demo is stopped.
const grace = 2 * time.Second

// stop ends what runs as the production binary does, and then the gateway.
func (g *gateway) stop() {
	module.Drain(grace)
	_ = caddy.Stop()
}

// checkFree reports an address that is taken. Caddy would share it with another
// Caddy, such as a second demo, and each would get half of the requests.
func checkFree(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%w (another address: -listen 127.0.0.1:0)", err)
	}
	return l.Close()
}

// hosts is what the cluster's configuration says of the ports of sandboxes. Only
// a registry in Redis knows ROCK's agent in a sandbox; without one ports are
// dialled at the sandbox's address, which is this machine.
func hosts(domain string, d *deployment) string {
	switch {
	case domain == "":
		return ""
	case d.redis == "":
		return "allow 127.0.0.1/32\n\t\t\tunmapped_ports dial"
	default:
		return "allow 127.0.0.1/32"
	}
}

// caddyfile is the gateway's configuration. The site has no host name, so that
// it answers whatever the client calls this machine.
func (g *gateway) caddyfile(listen, access, dir string, d *deployment) string {
	host, port, _ := net.SplitHostPort(listen)
	domain := ""
	if g.domain != "" {
		domain = "domain " + g.domain
	}
	registry := "# No registry: the admin role is asked where a sandbox is."
	if d.redis != "" {
		registry = "registry redis {\n\t\t\taddress " + d.redis + "\n\t\t}"
	}
	site, tls := "http://:"+port, ""
	if g.caFile != "" {
		site, tls = "https://:"+port, "tls internal {\n\t\ton_demand\n\t}"
	}
	return `{
	admin off
	persist_config off
	skip_install_trust
	auto_https disable_redirects
	grace_period 1s
	storage file_system ` + filepath.Join(dir, "caddy") + `
	log {
		level ERROR
	}
	servers {
		protocols h1
		listener_wrappers {
			e2b
		}
	}
	e2b {
		` + access + `
		` + domain + `
		` + registry + `
		cluster demo {
			admin http://` + d.admin + `
			proxy http://` + d.proxy + `
			resume restart
			pause stop
			` + hosts(g.domain, d) + `
		}
	}
}

` + site + ` {
	bind ` + host + `
	` + tls + `
	e2b
}
`
}

// environment is what an SDK reads.
func (g *gateway) environment() string {
	lines := []string{"export E2B_API_URL=" + g.url, "export E2B_SANDBOX_URL=" + g.url}
	if g.domain != "" {
		// What another demo has exported here would be preferred.
		lines = []string{"unset E2B_API_URL E2B_SANDBOX_URL", "export E2B_DOMAIN=" + g.domain}
	}
	lines = append(lines, "export E2B_API_KEY="+g.apiKey, "export E2B_TEMPLATE_ID=base")
	if g.secondKey != "" {
		lines = append(lines, "export E2B_SECOND_API_KEY="+g.secondKey)
	}
	if g.caFile != "" {
		lines = append(lines, "export SSL_CERT_FILE="+g.bundle, "export NODE_EXTRA_CA_CERTS="+g.caFile)
	}
	return strings.Join(lines, "\n") + "\n"
}

// loopback checks the address, and picks a port for port 0. The pretend ROCK
// runs any command, so it is for this machine only.
func loopback(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("-listen %s: %w", listen, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("-listen %s: the demo serves loopback addresses only, because it runs commands for everybody who asks", listen)
	}
	if port == "0" {
		return freeAddress()
	}
	return listen, nil
}
