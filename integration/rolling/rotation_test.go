package rolling

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The steps are those of docs/operations.md, on two gateways under load.
func TestSecretsAreChangedAndNobodyLosesACall(t *testing.T) {
	t.Parallel()
	s := newStage(t, 4)
	client := s.balancer.client(t, 1)
	load := steady(t, s, 200)

	// Redis has both passwords until every gateway has read the new one.
	redisDo := func(args ...any) {
		t.Helper()
		s.registry.Do(args...)
	}
	redisDo("ACL", "SETUSER", "gateway", ">another-password")
	s.secret("redis-password", "another-password")
	s.reload(s.caddyfile)
	redisDo("ACL", "SETUSER", "gateway", "<"+redisPassword)
	redisDo("CLIENT", "KILL", "USER", "gateway")
	s.create(client)

	// Tokens: all accept the new key before the first token is made with it.
	const first = "key 2026-12 {file."
	old, _, _ := strings.Cut(s.caddyfile[strings.Index(s.caddyfile, first):], "\n")
	other := strings.ReplaceAll(old, "2026-12", "2027-01")
	s.secret("token-2027-01", strings.Repeat("n", 32))
	s.reload(strings.Replace(s.caddyfile, old, old+"\n"+other, 1))
	s.reload(strings.Replace(s.caddyfile, old, other+"\n"+old, 1))
	late := s.create(client)

	// API keys: the file is read again when it changes.
	const second = "e2b_0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"
	s.secret("keys.json", keys(apiKey, second))
	info := request{method: http.MethodGet, path: "/sandboxes/" + late.ID, key: true, other: second, status: http.StatusOK}
	s.until(client, info)

	load.finish(t)

	// What only the old secrets open is closed, and the rest is not.
	stat := request{method: http.MethodPost, path: "/filesystem.Filesystem/Stat", body: `{"path": "/tmp"}`, status: http.StatusOK}
	early, kept := stat, stat
	early.sandbox, kept.sandbox = &s.sandboxes[0], &late
	s.must(client, early)
	s.reload(strings.Replace(s.caddyfile, old, other, 1))
	early.status = http.StatusUnauthorized
	s.must(client, early)
	s.must(client, kept)

	s.secret("keys.json", keys(second))
	info.other, info.status = apiKey, http.StatusUnauthorized
	s.until(client, info)
	info.other, info.status = second, http.StatusOK
	s.must(client, info)
}

// reload loads a config into every gateway, one after the other.
func (s *stage) reload(caddyfile string) {
	s.Helper()
	for _, g := range s.gateways {
		g.Reload(caddyfile)
	}
}

// must makes a call that must be answered as it says.
func (s *stage) must(client *http.Client, c request) {
	s.Helper()
	if err := s.call(client, c, nil); err != nil {
		s.Error(err)
	}
}

// until repeats a call until both gateways, which take turns, have answered it as it says a few times on end.
func (s *stage) until(client *http.Client, c request) {
	s.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for right := 0; right < 6; {
		err := s.call(client, c, nil)
		if right++; err != nil {
			right = 0
		}
		select {
		case <-poll.C:
		case <-limit.C:
			s.Fatal(err)
		}
	}
}
