package canary

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
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
		"all well":                 func(_ *testing.T, s *scene) string { return s.redis.Addr },
		"Redis refuses and quotes": func(t *testing.T, _ *scene) string { return newLiar(t) },
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
			g := harness.Start(t, s.caddyfile(address, s.access(), "canary_failing"))
			if name == "all well" {
				s.known(t, g.URL, g.Client())
			}
			who := s.everything()
			few, one := []string{"none", "reset in the body", "a traceback"}, "none"
			told := ""
			if name == "all well" {
				told = s.drive(t, g.URL, g.Client(), who)
			}
			told += s.drive(t, g.URL, g.Client(), s.wrong(who), one) + s.drive(t, g.URL, g.Client(), s.basic(who), few...)
			other := s.drive(t, g.URL, g.Client(), credentials{"X-Api-Key": {s.othersKey}}, one) + s.drive(t, g.URL, g.Client(), nil, one)
			if err := g.TryReload(strings.Replace(s.caddyfile(address, s.access(), ""), "{env."+envRedis+"}", s.key, 1)); err == nil {
				t.Error("a config with a password in it was accepted")
			} else {
				s.slots.absent(t, "the error of a reload", err.Error())
			}
			g.Stop()

			s.server.absent(t, "an answer", told+other)
			s.mine.absent(t, "an answer to another client", s.withoutItsOwn(other))
			logs := s.logged(t) + g.Logs()
			s.slots.absent(t, "a log", logs)
			for _, want := range []string{"http.log.access", "http.log.error", "http.handlers.e2b", "REDACTED"} {
				if !strings.Contains(logs, want) {
					t.Errorf("%s is not in the logs, so they prove nothing", want)
				}
			}
			s.checkRock(t)
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
	g := harness.Start(t, s.caddyfile(s.redis.Addr, s.access(), "log_append planted {http.request.header.X-Api-Key}"))
	s.known(t, g.URL, g.Client())
	s.ask(t.Context(), g.URL, g.Client(), s.everything(), call{"GET", "/health", "", "", "known"})
	g.Stop()
	if found := s.slots.in(s.logged(t)); !slices.Equal(found, []string{"API key"}) {
		t.Errorf("found %v in the logs", found)
	}
}
