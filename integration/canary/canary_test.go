package canary

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// known makes the sandbox that exists; the first client gets its token.
func (s *scene) known(t *testing.T, base string, client *http.Client) {
	t.Helper()
	answer := s.ask(t.Context(), base, client, credentials{"X-Api-Key": {s.key}}, call{"POST", "/sandboxes",
		`{"templateID":"base","metadata":{"ap-sandbox-id":"known"},"timeout":600}`, "application/json", ""})
	_, token, _ := strings.Cut(answer, `"envdAccessToken":"`)
	token, _, ok := strings.Cut(token, `"`)
	if !strings.HasPrefix(answer, "201 ") || !ok {
		t.Fatalf("create: %s", answer)
	}
	s.token = token
	s.mine.add("access token", token)
	s.slots.add("access token", token)
}

// Field report M17.
func TestNoSecretComesOut(t *testing.T) {
	for name, registry := range map[string]func(*testing.T, *scene) string{
		"Redis knows no such user": func(t *testing.T, s *scene) string { s.redis.Do("ACL", "DELUSER", "gateway"); return s.redis.Addr },
		"Redis may not be asked": func(t *testing.T, s *scene) string {
			s.redis.Do("ACL", "SETUSER", "gateway", "-@all")
			return s.redis.Addr
		},
		"Redis is gone": func(t *testing.T, s *scene) string { return "127.0.0.1:1" },
		"ROCK is gone": func(t *testing.T, s *scene) string {
			s.admin, s.proxy = "http://127.0.0.1:1", "http://127.0.0.1:1"
			return s.redis.Addr
		},
		"ROCK's proxy role is gone": func(t *testing.T, s *scene) string { s.proxy = "http://127.0.0.1:1"; return s.redis.Addr },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			address := registry(t, s)
			s.look(t, address, s.access())
		})
	}
}

// A Redis that quotes what it is asked, in both of its uses.
func TestNoSecretThatRedisQuotesComesOut(t *testing.T) {
	for name, access := range map[string]func(s *scene, liar string) string{
		"registry":  func(s *scene, _ string) string { return s.access() },
		"key store": (*scene).redisKeys,
	} {
		t.Run(name, func(t *testing.T) {
			s, liar := newScene(t), newLiar(t)
			if logs := s.look(t, liar, access(s, liar)); !strings.Contains(logs, "with args beginning with") {
				t.Error("it quoted nothing, so this proves nothing")
			}
		})
	}
}

// look lets everything fail with what is there already out of order, and looks
// for secrets. It returns the logs.
func (s *scene) look(t *testing.T, redis, access string) string {
	t.Helper()
	config := s.caddyfile(redis, access, "canary_failing")
	g := inprocess.Start(t, config)
	who := s.everything()
	told := s.drive(t, g.URL, g.Client(), s.basic(who), "none")
	other := s.drive(t, g.URL, g.Client(), credentials{"X-Api-Key": {s.othersKey}}, "none")
	return s.finish(t, g, config, told, other)
}

// clients makes the calls of those who have something to hide, with all that
// ROCK can do wrong, and of others.
func (s *scene) clients(t *testing.T, g *harness.Gateway, faults ...string) (told, other string) {
	t.Helper()
	who := s.everything()
	told = s.drive(t, g.URL, g.Client(), who, faults...) +
		s.drive(t, g.URL, g.Client(), s.wrong(who), "none") +
		s.drive(t, g.URL, g.Client(), s.basic(who), "none")
	other = s.drive(t, g.URL, g.Client(), credentials{"X-Api-Key": {s.othersKey}}, "none", "a traceback") +
		s.drive(t, g.URL, g.Client(), nil, "none")
	return told, other
}

// finish stops the gateway, after one more mistake of its operator, and looks at
// all that came out.
func (s *scene) finish(t *testing.T, g *harness.Gateway, config, told, other string) (logs string) {
	t.Helper()
	if err := g.TryReload(strings.Replace(config, "{env."+envRedis+"}", s.key, 1)); err == nil {
		t.Error("a config with a password in it was accepted")
	} else {
		s.slots.absent(t, "the error of a reload", err.Error())
	}
	g.Stop()
	s.server.absent(t, "an answer", told+other)
	s.mine.absent(t, "an answer to another client", s.withoutItsOwn(other))
	logs = s.logged(t) + g.Logs()
	s.slots.absent(t, "a log", logs)
	for _, want := range []string{"http.log.access", "http.log.error", "http.handlers.e2b", "REDACTED"} {
		if !strings.Contains(logs, want) {
			t.Errorf("%s is not in the logs, so they prove nothing", want)
		}
	}
	s.checkRock(t)
	return logs
}

// A sandbox that runs, and everything that ROCK can do wrong with it.
func TestNoSecretComesOutWhereAllIsWell(t *testing.T) {
	for _, store := range []string{"static", "http"} {
		t.Run(store, func(t *testing.T) {
			s := newScene(t)
			access, faults := s.access(), slices.Collect(maps.Keys(s.faults()))
			if store == "http" {
				access, faults = s.httpKeys(t, nil), []string{"none"}
			}
			config := s.caddyfile(s.redis.Addr, access, "canary_failing")
			g := inprocess.Start(t, config)
			s.known(t, g.URL, g.Client())
			told, other := s.clients(t, g, faults...)
			s.finish(t, g, config, told, other)
		})
	}
}

// withoutItsOwn takes out what the second client sent itself: both use the same
// URLs and bodies.
func (s *scene) withoutItsOwn(told string) string {
	return strings.NewReplacer(s.key, "", s.token, "", s.signature, "", s.query, "").Replace(told)
}

// checkRock looks at what ROCK received: nothing that opens anything, but what
// envd is to have.
func (s *scene) checkRock(t *testing.T) {
	t.Helper()
	told := map[string]bool{}
	for _, r := range s.rock.Log().Requests(rock.Match{}) {
		if strings.HasPrefix(r.Path, "/proxied/") {
			continue // a stock reverse_proxy passes all of it on
		}
		for _, name := range s.slots.in(fmt.Sprint(r.Header, r.Target)) {
			switch {
			case name == "Referer", name == "query": // the client's own mistakes
				continue
			case name == "Basic password" && r.Sandbox != "" && !strings.HasPrefix(r.Path, "/sandboxes"): // envd's
				continue
			}
			if !told[name+r.Path] {
				told[name+r.Path] = true
				t.Errorf("ROCK's %s role received %s: %s %s %v", r.Role, name, r.Method, r.Target, r.Header)
			}
		}
	}
}

// The suite must find what is there: an operator's own doing, here.
func TestAPlantedSecretIsFound(t *testing.T) {
	s := newScene(t)
	g := inprocess.Start(t, s.caddyfile(s.redis.Addr, s.access(), "log_append planted {http.request.header.X-Api-Key}"))
	s.known(t, g.URL, g.Client())
	s.ask(t.Context(), g.URL, g.Client(), s.everything(), call{"GET", "/health", "", "", "known"})
	g.Stop()
	if found := s.slots.in(s.logged(t)); !slices.Equal(found, []string{"API key"}) {
		t.Errorf("found %v in the logs", found)
	}
}
