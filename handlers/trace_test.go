package handlers

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
)

const (
	w3cID  = "0af7651916cd43dd8448eb211c80319c"
	parent = "00-" + w3cID + "-b7ad6b7169203331-01"
)

// W3C Trace Context, section 3.2.
func TestOnlyAWellFormedTraceparentNamesATrace(t *testing.T) {
	for value, want := range map[string]string{
		parent:                                 w3cID,
		"00-" + w3cID + "-b7ad6b7169203331-00": w3cID,
		"cc-" + w3cID + "-b7ad6b7169203331-01-what-the-future-is": w3cID,
		"cc-" + w3cID + "-b7ad6b7169203331-01.what-the-future-is": "",
		"cc-" + w3cID + "-b7ad6b7169203331-01-\xe9":               "",
		parent + "-more":                     "",
		"ff" + parent[2:]:                    "",
		strings.ToUpper(parent):              "",
		parent[:54]:                          "",
		"":                                   "",
		" " + parent:                         "",
		"0x" + parent[2:]:                    "",
		parent[:53] + "0g":                   "",
		strings.ReplaceAll(parent, "-", "_"): "",
		"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01":                     "",
		"00-" + w3cID + "-" + strings.Repeat("0", 16) + "-01":                        "",
		"00-" + w3cID[:31] + "\n-b7ad6b7169203331-01":                                "",
		"cc-" + w3cID + "-b7ad6b7169203331-01-" + strings.Repeat("x", maxTracestate): "",
	} {
		if got := traceOf(http.Header{headerTraceparent: {value}}); got != want {
			t.Errorf("%q names %q, want %q", value, got, want)
		}
	}
}

func TestATraceIsToldToROCKInItsOwnWay(t *testing.T) {
	const eagle = "0b01447016398520978532578ea50f"
	for name, tc := range map[string]struct {
		sent http.Header
		// The headers that go on.
		parent, state, eagle string
	}{
		"none":                  {http.Header{}, "", "", ""},
		"W3C":                   {http.Header{headerTraceparent: {parent}, headerTracestate: {"a=1"}}, parent, "a=1", w3cID},
		"EagleEye":              {http.Header{headerEagleEye: {eagle}}, "", "", eagle},
		"both":                  {http.Header{headerTraceparent: {parent}, headerEagleEye: {eagle}}, parent, "", w3cID},
		"malformed W3C":         {http.Header{headerTraceparent: {"x"}, headerTracestate: {"a=1"}, headerEagleEye: {eagle}}, "", "", eagle},
		"two traceparents":      {http.Header{headerTraceparent: {parent, parent}}, "", "", ""},
		"a state without trace": {http.Header{headerTracestate: {"a=1"}}, "", "", ""},
		"a state too long":      {http.Header{headerTraceparent: {parent}, headerTracestate: {strings.Repeat("a", 513)}}, parent, "", w3cID},
		"a state of no text":    {http.Header{headerTraceparent: {parent}, headerTracestate: {"a=\x1b[2J"}}, parent, "", w3cID},
		"forged lines":          {http.Header{headerEagleEye: {"a INFO [all is well]"}}, "", "", ""},
		"colours":               {http.Header{headerEagleEye: {"\x1b[31mred"}}, "", "", ""},
		"too long":              {http.Header{headerEagleEye: {strings.Repeat("a", 65)}}, "", "", ""},
		"two":                   {http.Header{headerEagleEye: {"a", "b"}}, "", "", ""},
		"empty":                 {http.Header{headerEagleEye: {""}}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, hop := range []auth.Hop{auth.Control, auth.OpenControl, auth.Envd} {
				r := sdkRequest()
				for name, values := range tc.sent {
					r.Header[name] = values
				}
				h := outbound(t.Context(), r, hop, nil).Header
				if h.Get(headerTraceparent) != tc.parent || h.Get(headerTracestate) != tc.state || h.Get(headerEagleEye) != tc.eagle {
					t.Errorf("hop %d: %q, %q, %q", hop, h[headerTraceparent], h[headerTracestate], h[headerEagleEye])
				}
			}
			// An app's clients may mean what they like.
			r := sdkRequest()
			for name, values := range tc.sent {
				r.Header[name] = values
			}
			h := outbound(t.Context(), r, auth.App, &Trail{TraceID: "t"}).Header
			for _, name := range []string{headerTraceparent, headerTracestate, headerEagleEye} {
				if !slices.Equal(h[name], tc.sent[name]) {
					t.Errorf("an app: %s: %q", name, h[name])
				}
			}
		})
	}
}

// FuzzTrace holds that nothing goes on to ROCK's log that is more than one plain word.
func FuzzTrace(f *testing.F) {
	f.Add(parent, "a=1", "0b01447016398520978532578ea50f")
	f.Add("cc-"+w3cID+"-b7ad6b7169203331-01-more", "", "a b")
	f.Add("", "\x1b[31m", strings.Repeat("a", 65))
	f.Fuzz(func(t *testing.T, parent, state, eagle string) {
		r := sdkRequest()
		r.Header[headerTraceparent], r.Header[headerTracestate], r.Header[headerEagleEye] = []string{parent}, []string{state}, []string{eagle}
		h := outbound(t.Context(), r, auth.Envd, nil).Header
		id := traceOf(r.Header)
		if got := h[headerEagleEye]; id == "" && got != nil || id != "" && !slices.Equal(got, []string{id}) {
			t.Errorf("ROCK is told %q of %q", got, id)
		}
		if len(id) > longestID || strings.ContainsFunc(id, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
		}) {
			t.Errorf("%q is no word", id)
		}
		for _, name := range []string{headerTraceparent, headerTracestate} {
			for _, v := range h[name] {
				if len(v) > maxTracestate || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%s: %q", name, v)
				}
			}
		}
		if h[headerTraceparent] != nil && (id != parent[3:35] || h.Get(headerTraceparent) != parent) || h[headerTraceparent] == nil && h[headerTracestate] != nil {
			t.Errorf("%q, %q of %q, %q", h[headerTraceparent], h[headerTracestate], parent, state)
		}
	})
}
