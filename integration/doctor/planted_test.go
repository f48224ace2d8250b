package doctor

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
	"github.com/caddy-e2b/gateway/module/doctor"
)

// planted is one thing wrong with the deployment of the example.
type planted struct {
	id    string // what it is found as
	how   string
	plant func(*scene)
	also  string // what is found with it, of necessity
}

// withRedis puts another Redis in the place of the example's, without a user.
func withRedis(args ...string) func(*scene) {
	return func(s *scene) {
		other := redistest.Start(s.t, redistest.Options{Args: args})
		s.useRedis(other)
	}
}

// useRedis is a Redis in which ROCK has a sandbox.
func (s *scene) useRedis(server *redistest.Server) {
	s.t.Helper()
	s.replace("address "+s.redis.Addr, "address "+server.Addr)
	s.replace("username gateway\n", "\n")
	s.replace("password {env.REDIS_PASSWORD}\n", "\n")
	cluster := s.newRock(rock.RedisStrings{Client: server.Admin()})
	s.useRock(cluster)
	s.create(s.admin)
}

func (s *scene) useRock(cluster *rock.Cluster) {
	admin, proxy := s.serve(cluster)
	s.replace(s.admin, admin)
	s.replace(s.proxy, proxy)
	s.admin, s.proxy = admin, proxy
}

// answering is a server of a handler that ends with the test.
func (s *scene) answering(h http.HandlerFunc) string {
	server := httptest.NewServer(h)
	s.t.Cleanup(server.Close)
	return server.URL
}

// domain turns hosts of sandboxes on, as the example has them behind #.
func domain(s *scene) {
	s.replace("# domain sandbox.example.com", "domain sandbox.example.com")
	s.replace("# allow 10.20.0.0/16", "allow 10.20.0.0/16")
	s.replace("# *.sandbox.example.com, sandbox.example.com {\n#\ttls internal\n#\tlog\n#\te2b\n# }",
		"*.sandbox.example.com, sandbox.example.com {\n\ttls internal\n\tlog\n\te2b\n}")
}

func option(o string) func(*scene)        { return func(s *scene) { s.option(o) } }
func at(place, o string) func(*scene)     { return func(s *scene) { s.add(place, o) } }
func change(old, new string) func(*scene) { return func(s *scene) { s.replace(old, new) } }

func both(plants ...func(*scene)) func(*scene) {
	return func(s *scene) {
		for _, plant := range plants {
			plant(s)
		}
	}
}

// proxySite is a site with stock reverse_proxy and our transport.
const proxySite = "http://old.sandbox.example.com {\n\treverse_proxy 127.0.0.1:9 {\n\t\ttransport e2b\n\t\tOPTION\n\t}\n}\nhttp:// {"

// keysOn is a store of keys that asks the handler.
func keysOn(h http.HandlerFunc) func(*scene) {
	return func(s *scene) {
		s.replace("keys file "+s.dir+"/keys.json", "keys http "+s.answering(h))
	}
}

// keys is a file of keys with these records.
func keys(records string) func(*scene) {
	return func(s *scene) { s.file("keys.json", `{"keys": [`+records+`]}`, 0o640) }
}

// certificate gives a site a certificate for a name.
func certificate(site, name string, from, to time.Duration) func(*scene) {
	return func(s *scene) {
		cert, key := s.certificate(name, from, to)
		s.replace(site, site+"\n\ttls "+cert+" "+key)
	}
}

const day = 24 * time.Hour

var everyPlanted = []planted{
	{id: "config-refused", how: "a variable that is not set", plant: func(s *scene) { delete(s.env, tokenKey) }},
	{id: "config-refused", how: "a key file that is none", plant: func(s *scene) { s.file("keys.json", "{", 0o640) }, also: "keys-unreadable"},

	{id: "redis-unreachable", plant: func(s *scene) { s.redis.Stop() }},
	{id: "redis-login", plant: func(s *scene) { s.env["REDIS_PASSWORD"] = "c4nary-wrong" }},
	{id: "redis-rights", plant: func(s *scene) { s.redis.Do("ACL", "SETUSER", "gateway", "-client|tracking") }},
	{id: "redis-rights", how: "of a Redis of keys", plant: func(s *scene) {
		keys := redistest.Start(s.t, redistest.Options{Users: []string{"keys on >" + password + " -@all +ping +subscribe +publish &*"}})
		s.replace("keys file "+s.dir+"/keys.json", "keys redis {\naddress "+keys.Addr+"\nusername keys\npassword {env.REDIS_PASSWORD}\n}")
	}},
	{id: "redis-commands", plant: withRedis("--rename-command", "WATCH", "")},
	{id: "redis-documents", plant: func(s *scene) { s.useRock(s.newRock(nil)) }},
	{id: "redis-other", plant: func(s *scene) {
		s.useRock(s.newRock(nil))
		s.create(s.admin)
	}},
	{id: "redis-records", plant: func(s *scene) { s.redis.Do("SET", "alive:"+s.create(s.admin), "no record") }},
	{id: "redis-evicts", plant: withRedis("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")},
	{id: "redis-events", plant: both(withRedis(), change("address ", "watch keyspace\n\t\t\taddress "))},
	{id: "redis-replica", plant: func(s *scene) {
		server := redistest.Start(s.t, redistest.Options{})
		s.useRedis(server)
		server.Do("REPLICAOF", "127.0.0.1", "1")
	}},

	{id: "role-unreachable", plant: func(s *scene) { s.replace(s.proxy, s.proxy+" http://127.0.0.1:1") }},
	{id: "role-unreachable", how: "no such name", plant: func(s *scene) { s.replace(s.proxy, s.proxy+" http://rock.invalid") }},
	{id: "role-swapped", plant: func(s *scene) {
		s.replace("admin "+s.admin, "admin "+s.proxy)
		s.replace("proxy "+s.proxy, "proxy "+s.admin)
	}},
	{id: "role-stranger", plant: func(s *scene) {
		s.replace(s.admin, s.admin+" "+s.answering(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	}},
	{id: "role-certificate", plant: func(s *scene) {
		server := httptest.NewUnstartedServer(s.rock.Admin())
		server.Config.ErrorLog = quiet
		server.StartTLS()
		s.t.Cleanup(server.Close)
		s.replace(s.admin, s.admin+" "+server.URL)
	}},
	{id: "clock-skew", plant: func(s *scene) {
		s.replace(s.admin, s.admin+" "+s.answering(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))
			s.rock.Admin().ServeHTTP(w, r)
		}))
	}},

	{id: "cluster-shared", plant: secondCluster("", "templates b:*")},
	{id: "cluster-unused", plant: secondCluster("other", "")},
	{id: "cluster-templates", plant: both(at(inCluster, "templates a:*"), secondCluster("other", "templates a:*"))},
	{id: "allow-everything", plant: at(inCluster, "allow 0.0.0.0/0")},
	{id: "idle-too-long", plant: option("idle_timeout 2m")},
	{id: "control-too-short", plant: option("control_timeout 30s")},
	{id: "sample-aes-key", plant: func(s *scene) {
		s.env["AES"] = base64.StdEncoding.EncodeToString(make([]byte, 32))
		s.add(inCluster, "aes_key {env.AES}")
	}},

	{id: "open-gateway", plant: func(s *scene) {
		s.replace("keys file "+s.dir+"/keys.json", "keys off")
		s.replace("tokens {\n\t\t\tkey 2026-12 {env.TOKEN_KEY}\n\t\t}", "")
	}},
	{id: "keys-unreadable", plant: keysOn(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })},
	{id: "keys-empty", plant: keys("")},
	{id: "keys-empty", how: "expired", plant: keys(`{"digest": "` + auth.DigestOf("a").String() + `", "subject": "a", "expires": "2001-01-01T00:00:00Z"}`)},
	{id: "keys-empty", how: "disabled", plant: func(s *scene) {
		s.replace("keys file "+s.dir+"/keys.json", "keys static {\nkey "+auth.DigestOf("a").String()+" alice {\ndisabled\n}\n}")
	}},
	{id: "keys-anything", plant: keysOn(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"subject":"a"}`)) })},
	{id: "keys-writable", plant: func(s *scene) {
		s.file("keys.json", `{"keys": [{"digest": "`+auth.DigestOf("a").String()+`", "subject": "a"}]}`, 0o666)
	}},
	{id: "secret-readable", plant: func(s *scene) {
		s.replace("{env.TOKEN_KEY}", "{file."+s.file("token", s.env[tokenKey], 0o644)+"}")
	}},
	{id: "token-key-weak", plant: func(s *scene) { s.env[tokenKey] = strings.Repeat("password", 5) }},
	{id: "token-key-twice", plant: change("key 2026-12 {env.TOKEN_KEY}", "key 2026-12 {env.TOKEN_KEY}\n\t\t\tkey 2027-01 {env.TOKEN_KEY}")},
	{id: "tokens-passthrough", plant: change("tokens {\n\t\t\tkey 2026-12 {env.TOKEN_KEY}\n\t\t}", "tokens passthrough")},

	{id: "name-unresolved", plant: func(s *scene) { s.dns = serveDNS(s.t, "data.sandbox.example.com") }},
	{id: "wildcard-unresolved", plant: both(domain, func(s *scene) { s.dns = serveDNS(s.t, "*.sandbox.example.com") })},
	{id: "domain-unserved", plant: both(domain, change("*.sandbox.example.com, sandbox.example.com {", "sandbox.example.com {"))},
	{id: "domain-closed", plant: both(domain, change("allow 10.20.0.0/16", ""))},
	{id: "certificate-expired", plant: certificate("https://api.sandbox.example.com {", "api.sandbox.example.com", -9*day, -day)},
	{id: "certificate-expires", plant: certificate("https://api.sandbox.example.com {", "api.sandbox.example.com", -day, 3*day)},
	{id: "certificate-name", plant: certificate("https://api.sandbox.example.com {", "other.example.com", -day, 90*day)},
	{id: "wildcard-certificate", plant: both(domain, change("\ttls internal\n\tlog\n\te2b\n}", "\tlog\n\te2b\n}"))},
	{id: "on-demand-permission", plant: both(domain, change("\ttls internal\n\tlog\n\te2b\n}", "\ttls {\n\t\ton_demand\n\t}\n\te2b\n}"),
		change("\tgrace_period 30s", "\tgrace_period 30s\n\ton_demand_tls {\n\t\tpermission http http://127.0.0.1:9\n\t}"))},

	{id: "no-handler", plant: both(change("e2b control", "respond 1"), change("e2b data", "respond 2"))},
	{id: "write-timeout", plant: at(inServers, "timeouts {\nwrite 1m\n}")},
	{id: "read-timeout", plant: at(inServers, "timeouts {\nread_body 1m\n}")},
	{id: "minimum-rate", plant: func(s *scene) { s.edit = everyServer(func(server map[string]any) { server["write_min_rate"] = 100 }) }},
	{id: "idle-too-short", plant: at(inServers, "timeouts {\nidle 1m\n}")},
	{id: "full-duplex", plant: at(inServers, "enable_full_duplex")},
	{id: "no-listener-wrapper", plant: change("listener_wrappers {\n\t\t\te2b\n\t\t}", "")},
	{id: "offers-http2", plant: change("protocols h1\n", "protocols h1 h2\n")},
	{id: "no-catch-all", plant: change("https://api.sandbox.example.com {", "http://api.sandbox.example.com:8080 {")},
	{id: "admin-exposed", plant: change("\tgrace_period 30s", "\tgrace_period 30s\n\tadmin 0.0.0.0:2019")},
	{id: "admin-off", plant: change("\tgrace_period 30s", "\tgrace_period 30s\n\tadmin off")},
	{id: "grace-too-short", plant: change("grace_period 30s", "grace_period 3s")},
	{id: "delay-too-short", plant: change("# shutdown_delay 10s", "shutdown_delay 1s")},
	{id: "open-files-low", plant: func(s *scene) { s.openFiles = "1024" }},

	{id: "encode-before", plant: at(inSite, "encode")},
	{id: "body-limit-before", plant: at(inSite, "request_body {\nmax_size 1MB\n}")},
	{id: "body-set-before", plant: at(inSite, "request_body {\nset x\n}")},
	{id: "rewrite-before", plant: change("e2b control", "handle_path /v1/* {\ne2b control\n}")},
	{id: "login-before", plant: at(inSite, "basic_auth {\nbob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}")},
	{id: "headers-before", plant: at(inSite, "request_header -X-Api-*")},
	{id: "proxy-buffers", plant: change("http:// {", strings.Replace(proxySite, "OPTION", "response_buffers 1MB", 1))},
	{id: "proxy-body-idle", plant: both(change("http:// {", strings.Replace(proxySite, "OPTION", "", 1)), at(inServers, "timeouts {\nread_body_idle -1s\n}"))},
	{id: "credentials-logged", plant: at(inSite, "log_append key {header.X-API-Key}")},
	{id: "credentials-debug", plant: both(change("\t\tformat json\n", "\t\tformat json\n\t\tlevel DEBUG\n"), change("\te2b data", "\t@x path /x\n\trewrite @x /y\n\te2b data")), also: "rewrite-before"},
}

// secondCluster adds a cluster: with the first one's addresses, or with those of
// another deployment.
func secondCluster(which, options string) func(*scene) {
	return func(s *scene) {
		admin, proxy := s.admin, s.proxy
		registry := "registry control"
		if which == "other" {
			admin, proxy = s.serve(s.newRock(nil))
		}
		s.replace("\t\t# Who gets in.", "cluster second {\nadmin "+admin+"\nproxy "+proxy+"\n"+registry+"\n"+options+"\n}\n\t\t# Who gets in.")
		// One registry for all is refused, so the first cluster gets its own.
		from, to := strings.Index(s.caddyfile, "\t\tregistry redis {"), strings.Index(s.caddyfile, "\t\tcluster default {")
		own := s.caddyfile[from:to]
		s.caddyfile = strings.Replace(s.caddyfile[:from]+s.caddyfile[to:], inCluster, inCluster+own, 1)
	}
}

func everyServer(edit func(server map[string]any)) func(map[string]any) {
	return func(config map[string]any) {
		servers := config["apps"].(map[string]any)["http"].(map[string]any)["servers"].(map[string]any)
		for _, server := range servers {
			edit(server.(map[string]any))
		}
	}
}

func ids(r result) (all []string) {
	for _, f := range r.report.Findings {
		if !slices.Contains(all, f.ID) {
			all = append(all, f.ID)
		}
	}
	slices.Sort(all)
	return all
}

func TestTheExampleHasNothingWrong(t *testing.T) {
	for name, plant := range map[string]func(*scene){"as it is": func(*scene) {}, "with hosts of sandboxes": domain} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			plant(s)
			if r := s.run(); r.code != 0 || len(r.report.Findings) != 0 {
				t.Errorf("exit code %d: %s", r.code, r.out)
			}
		})
	}
}

func TestEachMisconfigurationIsFoundAndNothingElse(t *testing.T) {
	severities := map[string]doctor.Severity{}
	for _, k := range doctor.Kinds {
		severities[k.ID] = k.Severity
	}
	for _, p := range everyPlanted {
		t.Run(strings.TrimSpace(p.id+" "+p.how), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			p.plant(s)
			r := s.run()
			want := append(strings.Fields(p.also), p.id)
			slices.Sort(want)
			if got := ids(r); !slices.Equal(got, want) {
				t.Errorf("found %v, want %v:\n%s", got, want, r.out)
			}
			code := 1
			if severities[p.id] == doctor.Note {
				code = 0
			}
			if r.code != code {
				t.Errorf("exit code %d, want %d", r.code, code)
			}
		})
	}
}

func TestEveryKindOfFindingIsPlanted(t *testing.T) {
	for _, k := range doctor.Kinds {
		if !slices.ContainsFunc(everyPlanted, func(p planted) bool { return p.id == k.ID }) {
			t.Errorf("nothing is planted that is found as %s", k.ID)
		}
	}
}
