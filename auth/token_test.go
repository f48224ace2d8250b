package auth

import (
	"bytes"
	"strings"
	"testing"
)

func tokens(t testing.TB, ids ...string) *Tokens {
	t.Helper()
	var keys []TokenKey
	for _, id := range ids {
		keys = append(keys, TokenKey{id, bytes.Repeat([]byte(id), MinTokenSecret)})
	}
	made, err := NewTokens(keys)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestATokenOpensOneSandboxOfOneOwner(t *testing.T) {
	k := tokens(t, "a")
	token := k.Mint(AccessToken, "sbx-1", "alice")
	if again := tokens(t, "a").Mint(AccessToken, "sbx-1", "alice"); again != token {
		t.Errorf("made twice it differs: %s, %s", token, again)
	}
	claim, ok := k.Check(AccessToken, token, "sbx-1")
	if !ok || !claim.By("alice") || claim.By("bob") || claim.By("") {
		t.Errorf("%s: %v", token, ok)
	}
	for name, wrong := range map[string]func() bool{
		"another sandbox": func() bool { _, ok := k.Check(AccessToken, token, "sbx-2"); return ok },
		"another kind":    func() bool { _, ok := k.Check(TrafficToken, token, "sbx-1"); return ok },
		"relabelled": func() bool {
			_, ok := k.Check(TrafficToken, strings.Replace(token, string(AccessToken), string(TrafficToken), 1), "sbx-1")
			return ok
		},
		"another secret": func() bool { _, ok := tokens(t, "b", "c").Check(AccessToken, token, "sbx-1"); return ok },
	} {
		if wrong() {
			t.Errorf("%s is let in", name)
		}
	}
	for i := range token {
		for _, c := range []byte{token[i] ^ 1, 'A', '=', 0} {
			forged := token[:i] + string(rune(c)) + token[i+1:]
			if claim, ok := k.Check(AccessToken, forged, "sbx-1"); forged != token && ok && claim.By("alice") {
				t.Errorf("%q is let in", forged)
			}
		}
	}
}

// Old tokens live until their key is taken away, and new ones are made with the
// first.
func TestTokenKeysAreReplacedWithoutDowntime(t *testing.T) {
	before, during, after, late := tokens(t, "old"), tokens(t, "old", "new"), tokens(t, "new", "old"), tokens(t, "new")
	good := func(k *Tokens, token string) bool { _, ok := k.Check(AccessToken, token, "s"); return ok }
	old, fresh := before.Mint(AccessToken, "s", "o"), after.Mint(AccessToken, "s", "o")
	if !good(during, old) || !good(during, fresh) || !good(after, old) || !good(after, fresh) || !good(late, fresh) {
		t.Error("a token stopped working while its key was there")
	}
	if good(late, old) || good(before, fresh) {
		t.Error("a token works without its key")
	}
	var all []string
	for token := range after.All(AccessToken, "s", "o") {
		all = append(all, token)
	}
	if len(all) != 2 || all[0] != fresh || all[1] != old {
		t.Errorf("%q", all)
	}
}

func TestTokenKeysAreChecked(t *testing.T) {
	secret := bytes.Repeat([]byte{1}, MinTokenSecret)
	for _, keys := range [][]TokenKey{nil, {{"a", secret[1:]}}, {{"", secret}}, {{"A", secret}}, {{"a_b", secret}}, {{"a", secret}, {"a", secret}}} {
		if _, err := NewTokens(keys); err == nil || strings.Contains(err.Error(), string(secret)) {
			t.Errorf("%v: %v", keys, err)
		}
	}
}

func BenchmarkCheckToken(b *testing.B) {
	k := tokens(b, "2026-11")
	token := k.Mint(AccessToken, "0123456789abcdef0123456789abcdef", "alice")
	b.ReportAllocs()
	for b.Loop() {
		if claim, ok := k.Check(AccessToken, token, "0123456789abcdef0123456789abcdef"); !ok || !claim.By("alice") {
			b.Fatal("no")
		}
	}
}

func FuzzCheckToken(f *testing.F) {
	k := tokens(f, "a", "b-1")
	f.Add(k.Mint(AccessToken, "s", "o"), "s", "o")
	f.Add("e2ba_a_", "s", "")
	f.Add(tokens(f, "elsewhere").Mint(AccessToken, "s", "o"), "s", "o")
	f.Fuzz(func(t *testing.T, token, sandboxID, subject string) {
		claim, ok := k.Check(AccessToken, token, sandboxID)
		if ok && k.MadeElsewhere(AccessToken, token) {
			t.Fatalf("%q opens %q and was made elsewhere", token, sandboxID)
		}
		if !ok || !claim.By(subject) {
			return
		}
		for made := range k.All(AccessToken, sandboxID, subject) {
			if made == token {
				return
			}
		}
		t.Fatalf("%q opens %q of %q and was not made for it", token, sandboxID, subject)
	})
}
