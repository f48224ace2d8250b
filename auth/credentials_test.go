package auth

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// spellings are the ways in which a name may be written that some server reads
// as the same name, as net/http hands them over.
func spellings(name string) []string {
	var all []string
	for _, s := range []string{name, strings.ToUpper(name), strings.ToLower(name),
		strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", "."), strings.Replace(name, "-", "_", 1)} {
		all = append(all, s, http.CanonicalHeaderKey(s))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Field report M05 and M07, contract checklist 19.
func TestWhatOnlyTheGatewayMaySayIsDroppedInEverySpelling(t *testing.T) {
	for _, name := range []string{
		"X-User-Id", "X-Namespace", "X-Experiment-Id", "X-Cluster", "X-ROCK-Target-Port", "rock-host-ip", "sandbox_id",
		"Route-Key", "e2b-traffic-access-token", "Proxy-Authorization", "Proxy-Connection", "Proxy", "HTTP2-Settings",
		"Transfer-Encoding", "Connection", "Upgrade", "Keep-Alive", "Te", "Trailer", "Content-Length",
	} {
		for _, s := range spellings(name) {
			for _, hop := range []Hop{Control, OpenControl, Envd, App} {
				if got := hop.PassageOf(s); got != Dropped {
					t.Errorf("hop %d, %q: %d", hop, s, got)
				}
			}
		}
	}
}

// Contract checklist 18, 19 and 34; field reports M07, M08 and N06.
func TestEachHopGetsOnlyTheCredentialsThatAreItsOwn(t *testing.T) {
	for _, tc := range []struct {
		name string
		want [4]Passage // Control, OpenControl, Envd, App
	}{
		{"X-Api-Key", [4]Passage{Dropped, Kept, Dropped, Dropped}},
		{"X-Key", [4]Passage{Dropped, Kept, Dropped, Dropped}},
		{"Xrl-Authorization", [4]Passage{Dropped, Kept, Dropped, Dropped}},
		{"Authorization", [4]Passage{Dropped, Kept, Kept, Kept}},
		{"Cookie", [4]Passage{Dropped, Dropped, Dropped, Kept}},
		{"Referer", [4]Passage{Dropped, Dropped, Dropped, Kept}},
		{"X-Access-Token", [4]Passage{Dropped, Dropped, Kept, Dropped}},
		{"E2b-Sandbox-Id", [4]Passage{Dropped, Dropped, Kept, Dropped}},
		{"E2b-Sandbox-Port", [4]Passage{Dropped, Dropped, Kept, Dropped}},
		{"Traceparent", [4]Passage{Checked, Checked, Checked, Passes}},
		{"Tracestate", [4]Passage{Checked, Checked, Checked, Passes}},
		{"Eagleeye-Traceid", [4]Passage{Checked, Checked, Checked, Passes}},
		{"Eagleeye_traceid", [4]Passage{Dropped, Dropped, Dropped, Dropped}},
		{"X_api_key", [4]Passage{Dropped, Dropped, Dropped, Dropped}},
		{"X.access.token", [4]Passage{Dropped, Dropped, Dropped, Dropped}},
		{"E2b_sandbox_id", [4]Passage{Dropped, Dropped, Dropped, Dropped}},
		{"E2b-Sandbox_port", [4]Passage{Dropped, Dropped, Dropped, Dropped}},
		{"Lang_version", [4]Passage{}},
		{"Package_version", [4]Passage{}},
		{"Sdk_runtime", [4]Passage{}},
		{"Api_key", [4]Passage{}},
		{"User-Agent", [4]Passage{}},
		{"Content-Type", [4]Passage{}},
		{"Connect-Timeout-Ms", [4]Passage{}},
		{"Sec-Websocket-Protocol", [4]Passage{}},
		{"", [4]Passage{}},
	} {
		for i, hop := range []Hop{Control, OpenControl, Envd, App} {
			if got := hop.PassageOf(tc.name); got != tc.want[i] {
				t.Errorf("hop %d, %q: %d, want %d", hop, tc.name, got, tc.want[i])
			}
		}
	}
}

// Field report M06.
func TestEveryClaimAboutTheClientsAddressIsKnown(t *testing.T) {
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Uri", "X-Forwarded-Anything", "Forwarded", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip"} {
		for _, s := range spellings(name) {
			if !Forwarded(s) {
				t.Errorf("%q is not taken for one", s)
			}
		}
	}
	for _, name := range []string{"X-Forwarded-", "X-Forwarde-For", "For", "", "X"} {
		if Forwarded(name) {
			t.Errorf("%q is taken for one", name)
		}
	}
}

// Contract checklist 18, field report M08.
func TestOnlyTheUserOfTheSandboxGoesToEnvd(t *testing.T) {
	for _, tc := range []struct{ sent, want []string }{
		{[]string{"Basic dXNlcjo="}, []string{"Basic dXNlcjo="}},
		{[]string{"basic dXNlcjo="}, []string{"basic dXNlcjo="}},
		{[]string{"Bearer key"}, nil},
		{[]string{"Bearer key", "Basic dXNlcjo="}, []string{"Basic dXNlcjo="}},
		{[]string{"Basic"}, nil},
		{[]string{""}, nil},
		{nil, nil},
	} {
		sent := slices.Clone(tc.sent)
		h := http.Header{}
		if sent != nil {
			h["Authorization"] = sent
		}
		OnlyBasic(h)
		if !slices.Equal(h["Authorization"], tc.want) || !slices.Equal(sent, tc.sent) {
			t.Errorf("%q: %q, want %q (sent is now %q)", tc.sent, h["Authorization"], tc.want, sent)
		}
	}
}

func TestROCKIsToldTheTenantAndNothingEmpty(t *testing.T) {
	h := http.Header{}
	SetTenant(h, Tenant{UserID: "u", Cluster: "c"})
	if len(h) != 2 || h.Get("X-User-Id") != "u" || h.Get("X-Cluster") != "c" {
		t.Errorf("%v", h)
	}
}

func TestTheRuleOfAHeaderCostsNoAllocation(t *testing.T) {
	names := []string{"X-Api-Key", "E2b-Sandbox-Id", "User-Agent", "X_user_id", "Proxy-Authorization", "X-Forwarded-For"}
	if n := testing.AllocsPerRun(100, func() {
		for _, name := range names {
			if Envd.PassageOf(name) == Kept && Forwarded(name) {
				t.Error(name)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzPassageOf holds the fast table against a plain reading of the rule.
func FuzzPassageOf(f *testing.F) {
	for name := range guarded {
		for _, s := range spellings(name) {
			f.Add(s, uint8(Envd))
		}
	}
	f.Add("proxy-x", uint8(App))
	f.Add("K\u212aey", uint8(Control))
	f.Fuzz(func(t *testing.T, name string, hop uint8) {
		h := Hop(hop % 4)
		folded := strings.Map(func(r rune) rune {
			switch {
			case r >= 'A' && r <= 'Z':
				return r + 'a' - 'A'
			case r == '_' || r == '.':
				return '-'
			default:
				return r
			}
		}, name)
		want := Passes
		family, known := guarded[folded]
		switch {
		case known && name != http.CanonicalHeaderKey(folded):
			want = Dropped
		case known:
			want = h.passageOf(family)
		case strings.HasPrefix(folded, "proxy-") && folded != "proxy-":
			want = Dropped
		}
		if got := h.PassageOf(name); got != want {
			t.Errorf("hop %d, %q: %d, want %d", h, name, got, want)
		}
		if strings.HasPrefix(folded, "x-forwarded-") && folded != "x-forwarded-" != Forwarded(name) {
			t.Errorf("%q: Forwarded says %v", name, Forwarded(name))
		}
	})
}
