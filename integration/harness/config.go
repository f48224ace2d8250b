package harness

import (
	"encoding/json"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/loopback"
)

// object is a JSON object of a Caddy config.
type object = map[string]any

// setting is what a test decides about a gateway, kept over reloads.
type setting struct {
	transport Transport
	authority *authority // nil for Cleartext
	dir       string     // for all files
	admin     string     // Caddy's address of the admin endpoint, "" for none
	addresses map[string]string
	first     string // the address of the first listener, once it is chosen
}

// Port stands in a Caddyfile for the port of its first listener, where the
// gateway itself must know what clients dial.
const Port = "<port>"

// Admin stands in a Caddyfile for the address of Caddy's admin endpoint, which has one
// in a [Process].
const Admin = "<admin>"

// fill puts the port into a Caddyfile.
func (s *setting) fill(t testing.TB, caddyfile string) string {
	t.Helper()
	caddyfile = strings.ReplaceAll(caddyfile, Admin, s.admin)
	if !strings.Contains(caddyfile, Port) {
		return caddyfile
	}
	if s.first == "" {
		s.first = loopback.FreeAddress(t)
	}
	_, port, _ := net.SplitHostPort(s.first)
	return strings.ReplaceAll(caddyfile, Port, port)
}

// forget lets every listener have another address.
func (s *setting) forget() {
	clear(s.addresses)
	s.first = ""
}

func newSetting(t testing.TB, transport []Transport) *setting {
	t.Helper()
	s := &setting{transport: Cleartext, dir: t.TempDir(), addresses: map[string]string{}}
	switch len(transport) {
	case 0:
	case 1:
		s.transport = transport[0]
	default:
		t.Fatal("a gateway has one transport")
	}
	if s.transport.secure() {
		s.authority = newAuthority(t)
	}
	return s
}

func (s *setting) logFile() string { return filepath.Join(s.dir, "log") }

// apply changes an adapted config to the setting. A listener keeps its address
// over reloads.
func (s *setting) apply(t testing.TB, adapted []byte) (config []byte, e Endpoint) {
	t.Helper()
	var root object
	if err := json.Unmarshal(adapted, &root); err != nil {
		t.Fatalf("reading the adapted config: %v", err)
	}
	root["admin"] = s.adminConfig(child(root, "admin")["origins"])
	root["storage"] = object{"module": "file_system", "root": filepath.Join(s.dir, "storage")}
	s.catchLogs(root)

	apps := child(root, "apps")
	delete(apps, "pki")
	delete(apps, "tls")
	e = Endpoint{Transport: s.transport, urls: map[string]string{}, t: t}
	if s.authority != nil {
		e.CAFile = s.authority.file
		apps["tls"] = object{"certificates": object{"load_pem": []any{
			object{"certificate": s.authority.cert, "key": s.authority.key},
		}}}
	}
	servers := child(child(apps, "http"), "servers")
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s.place(t, servers[name].(object), &e)
	}
	config, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return config, e
}

// place moves a server to its loopback address and transport.
func (s *setting) place(t testing.TB, server object, e *Endpoint) {
	t.Helper()
	listen, _ := server["listen"].([]any)
	if len(listen) != 1 {
		t.Fatalf("a site of a test has one listener, not %v", listen)
	}
	listener := listen[0].(string)
	switch {
	case s.addresses[listener] != "":
	case e.URL == "" && s.first != "":
		s.addresses[listener] = s.first
	default:
		s.addresses[listener] = loopback.FreeAddress(t)
	}
	server["listen"] = []string{s.addresses[listener]}
	server["automatic_https"] = object{"disable": true}
	server["protocols"] = s.transport.protocols()
	policy := object{"alpn": s.transport.alpn()}
	if given, ok := server["tls_connection_policies"].([]any); ok && given[0].(object)["client_authentication"] != nil {
		policy["client_authentication"] = given[0].(object)["client_authentication"]
	}
	delete(server, "tls_connection_policies")
	if s.transport.secure() {
		server["tls_connection_policies"] = []any{policy}
	}
	url := s.transport.scheme() + "://" + s.addresses[listener]
	e.urls[listener] = url
	if e.URL == "" {
		e.URL = url
	}
}

// adminConfig keeps the origins of the Caddyfile, nil for none.
func (s *setting) adminConfig(origins any) object {
	config := object{"config": object{"persist": false}}
	if origins != nil {
		config["origins"] = origins
	}
	if s.admin == "" {
		config["disabled"] = true
	} else {
		config["listen"] = s.admin
	}
	return config
}

// catchLogs sends the default log, and those of sites, to one file, unless the
// Caddyfile says where they go.
func (s *setting) catchLogs(root object) {
	logs := child(child(root, "logging"), "logs")
	child(logs, "default")
	for name := range logs {
		if log := child(logs, name); log["writer"] == nil {
			log["writer"] = object{"output": "file", "filename": s.logFile(), "roll": false}
		}
	}
}

// child is the object at a key, made if there is none.
func child(parent object, key string) object {
	c, ok := parent[key].(object)
	if !ok {
		c = object{}
		parent[key] = c
	}
	return c
}
