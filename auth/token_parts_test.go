package auth_test

import (
	"testing"

	"github.com/caddy-e2b/gateway/auth"
)

func TestATokenSaysItsKindAndItsKey(t *testing.T) {
	tokens, err := auth.NewTokens([]auth.TokenKey{{ID: "2026-12", Secret: make([]byte, auth.MinTokenSecret)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []auth.Kind{auth.AccessToken, auth.TrafficToken} {
		token := tokens.Mint(kind, "a", "alice")
		if k, id, ok := auth.TokenParts(token); !ok || k != kind || id != "2026-12" {
			t.Errorf("%s: %q %q %v", token, k, id, ok)
		}
		for _, other := range []string{"", token[1:], token[:len(token)-1], token + "A", string(kind), string(kind) + "_", string(kind) + "A_" + token[len(token)-48:],
			token[:len(token)-4] + "\n\n\n\n"} {
			if _, _, ok := auth.TokenParts(other); ok {
				t.Errorf("%q is taken for a token", other)
			}
		}
	}
}

// Whatever is taken for a token here is one for Check when its key is known, and the
// other way round.
func FuzzTokenParts(f *testing.F) {
	tokens, err := auth.NewTokens([]auth.TokenKey{{ID: "k", Secret: make([]byte, auth.MinTokenSecret)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(tokens.Mint(auth.AccessToken, "a", "alice"))
	f.Add(tokens.Mint(auth.TrafficToken, "a", "alice"))
	f.Add("e2ba_k_")
	f.Fuzz(func(t *testing.T, token string) {
		kind, id, ok := auth.TokenParts(token)
		if ok && !auth.ValidTokenKeyID(id) {
			t.Errorf("%q has the key %q", token, id)
		}
		for _, of := range []auth.Kind{auth.AccessToken, auth.TrafficToken} {
			if _, good := tokens.Check(of, token, "a"); good && (!ok || kind != of || id != "k") {
				t.Errorf("%q is good and read as %q %q %v", token, kind, id, ok)
			}
		}
	})
}
