package handlers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
)

var longAgo = time.Unix(1, 0)

// Contract checklist 21.
func TestWhoMayUseTheControlPlane(t *testing.T) {
	d := newDesk(t)
	for name, tc := range map[string]struct {
		headers []string
		want    int
	}{
		"a key":                      {[]string{"X-Api-Key", alice}, 200},
		"a key as Bearer":            {[]string{"Authorization", "Bearer " + alice}, 200},
		"a scheme in other letters":  {[]string{"Authorization", "bearer  " + alice}, 200},
		"the same key in both":       {[]string{"X-Api-Key", alice, "Authorization", "Bearer " + alice}, 200},
		"a key, and an old token":    {[]string{"X-Api-Key", alice, "Authorization", "Bearer sk_old"}, 200},
		"an old token, and bad key":  {[]string{"X-Api-Key", stranger, "Authorization", "Bearer " + alice}, 401},
		"an empty key, a good token": {[]string{"X-Api-Key", "", "Authorization", "Bearer " + alice}, 401},
		"nothing":                    {nil, 401},
		"an empty key":               {[]string{"X-Api-Key", ""}, 401},
		"unknown":                    {[]string{"X-Api-Key", stranger}, 401},
		"disabled":                   {[]string{"X-Api-Key", disabled}, 401},
		"expired":                    {[]string{"X-Api-Key", expired}, 401},
		"the digest of a key":        {[]string{"X-Api-Key", auth.DigestOf(alice).String()}, 401},
		"a key with a space":         {[]string{"X-Api-Key", alice + " "}, 401},
		"a key in capitals":          {[]string{"X-Api-Key", strings.ToUpper(alice)}, 401},
		"a long one":                 {[]string{"X-Api-Key", strings.Repeat("a", 10_000)}, 401},
		"Basic":                      {[]string{"Authorization", "Basic " + alice}, 401},
		"Bearer alone":               {[]string{"Authorization", "Bearer"}, 401},
		"Bearer of nothing":          {[]string{"Authorization", "Bearer "}, 401},
		"no scheme":                  {[]string{"Authorization", alice}, 401},
		"an access token's header":   {[]string{"X-Access-Token", alice}, 401},
		"the ROCK SDK's header":      {[]string{"X-Key", alice}, 401},
		"another spelling":           {[]string{"X_api_key", alice}, 401},
		"scope data only":            {[]string{"X-Api-Key", watcher}, 403},
		"two keys":                   {[]string{"X-Api-Key", alice, "X-Api-Key", bob}, 400},
		"one key twice":              {[]string{"X-Api-Key", alice, "X-Api-Key", alice}, 400},
		"two keys in one":            {[]string{"X-Api-Key", alice + "," + bob}, 400},
		"two in one, the second bad": {[]string{"X-Api-Key", alice + ", " + stranger}, 400},
		"two Bearers":                {[]string{"Authorization", "Bearer " + alice, "Authorization", "Bearer " + bob}, 400},
		"two Bearers in one":         {[]string{"Authorization", "Bearer " + alice + ", Bearer " + bob}, 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := d.ask("", "GET", "/sandboxes/alices", "", tc.headers...)
			if r.status != tc.want {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if sent := d.took(); len(sent) != map[bool]int{true: 1}[tc.want == 200] {
				t.Errorf("ROCK got %d calls", len(sent))
			}
			if tc.want != 200 {
				if code, message := r.e2b(t); code != tc.want || message == "" || r.header.Get("Content-Type") != "application/json; charset=utf-8" {
					t.Errorf("%v %s", r.header, r.body)
				}
			}
		})
	}
}

// What is wrong with a credential is not for whoever tries some.
func TestEveryBadCredentialGetsTheSameAnswer(t *testing.T) {
	d := newDesk(t)
	want := d.ask("", "GET", "/sandboxes/alices", "").nameless()
	for _, key := range []string{stranger, disabled, expired, "x"} {
		if r := d.ask(key, "GET", "/sandboxes/alices", "").nameless(); r.status != 401 || r.body != want.body || fmt.Sprint(r.header) != fmt.Sprint(want.header) {
			t.Errorf("%s: %v %s", key, r.header, r.body)
		}
	}
	if d.records.asked != 0 {
		t.Error("the registry was asked for nobody")
	}
}

func TestNobodyGetsInWhileTheKeysCannotBeLookedUp(t *testing.T) {
	d := newDesk(t)
	d.keys.err = fmt.Errorf("%w: %w", auth.ErrUnavailable, errDown)
	r := d.ask(alice, "GET", "/sandboxes/alices", "")
	if code, _ := r.e2b(t); code != 503 || r.header.Get("Retry-After") == "" || len(d.took()) != 0 {
		t.Errorf("%v %s", r.header, r.body)
	}
}

// A store that answers with another key must not make the caller its holder.
func TestAStoresKeyMustBeTheOneAskedFor(t *testing.T) {
	d := newDesk(t)
	d.keys.keys[auth.DigestOf(stranger)] = d.keys.keys[auth.DigestOf(alice)]
	if r := d.ask(stranger, "GET", "/sandboxes/alices", ""); r.status != 401 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestWhoCallsIsAskedBeforeTheBodyIsRead(t *testing.T) {
	d := newDesk(t)
	if r := d.ask("", "POST", "/sandboxes", strings.Repeat("x", 2<<20)); r.status != 401 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestWithoutAccessEverybodyGetsIn(t *testing.T) {
	d := newDesk(t)
	d.gateway.opt.Access = nil
	r := d.ask("anything", "GET", "/sandboxes/bobs", "", "Authorization", "Bearer x")
	if sent := d.took(); r.status != 200 || len(sent) != 1 || sent[0].Header.Get("X-Api-Key") != "anything" || sent[0].Header.Get("Authorization") != "Bearer x" {
		t.Errorf("%d %s, %v", r.status, r.body, sent)
	}
}

// Contract checklist 19, field report M05.
func TestRockIsToldTheTenantAndNoSecret(t *testing.T) {
	d := newDesk(t)
	for key, want := range map[string]string{alice: "u-alice", bob: ""} {
		d.ask(key, "POST", "/sandboxes", `{"templateID":"base"}`,
			"Authorization", "Bearer "+key, "X-Key", key, "Xrl-Authorization", "Bearer "+key, "Cookie", key, "X_API_KEY", key,
			"X-User-Id", "root", "x_user_id", "root", "X-Cluster", "test", "X-Experiment-Id", "e")
		sent := d.took()
		if len(sent) != 1 {
			t.Fatalf("%d calls", len(sent))
		}
		h := sent[0].Header
		if h.Get("X-User-Id") != want || len(h["X-User-Id"]) > 1 || h["X-Cluster"] != nil || h["X-Experiment-Id"] != nil {
			t.Errorf("%v", h)
		}
		if strings.Contains(fmt.Sprint(h), key) || strings.Contains(fmt.Sprint(h), "root") || strings.Contains(sent[0].body, key) {
			t.Errorf("%v %s", h, sent[0].body)
		}
	}
}
