package handlers

import (
	"net/http"
	"strings"
	"testing"
)

// On a shared host the URL of a file is the same in every sandbox, and that of a
// list for every key.
func TestNoCacheGivesOneClientWhatAnotherGot(t *testing.T) {
	g := newGuarded(t)
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept-Encoding")
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		answerWith(200, unary, "[]")(w, r)
	}
	g.admin = answerWith(200, unary, "{}")
	file := g.try(t, kind{"files", "GET", "/files?path=%2Fa", "", nil}, mine, g.token("alice", mine))
	if vary := strings.Join(file.header["Vary"], ", "); file.status != 200 || vary != "Accept-Encoding, E2b-Sandbox-Id, E2b-Sandbox-Port, X-Access-Token" {
		t.Errorf("%d, Vary: %s", file.status, vary)
	}
	for _, target := range []string{"/v2/sandboxes?metadata=a%3Db", "/sandboxes/" + mine} {
		r := g.send(t, "GET", target, "", "", "X-API-Key", "e2b_a11ce")
		if cache := r.header["Cache-Control"]; r.status != 200 || len(cache) != 1 || cache[0] != "no-store" {
			t.Errorf("%s: %d, Cache-Control: %q", target, r.status, cache)
		}
	}
}
