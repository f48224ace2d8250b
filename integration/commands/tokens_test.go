package commands

import (
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
)

var (
	oldSecret = strings.Repeat("old-", 8)
	newSecret = strings.Repeat("new-", 8)
	secrets   = []string{"E2B_TEST_OLD=" + oldSecret, "E2B_TEST_NEW=" + newSecret}
)

// config is a Caddyfile with these tokens.
func config(t *testing.T, tokens string) string {
	return writeFile(t, "Caddyfile", `{
	e2b {
		cluster a {
			admin http://127.0.0.1:1
			proxy http://127.0.0.1:1
		}
		keys file /does/not/exist
		tokens `+tokens+`
	}
}
:8080 {
	e2b
}
`)
}

const twoKeys = "{\nkey 2027-01 {env.E2B_TEST_NEW}\nkey 2026-12 {env.E2B_TEST_OLD}\n}"

// token is one that a gateway with this key makes for alice's sandbox a.
func token(t *testing.T, kind auth.Kind, keyID, secret string) string {
	t.Helper()
	tokens, err := auth.NewTokens([]auth.TokenKey{{ID: keyID, Secret: []byte(secret)}})
	if err != nil {
		t.Fatal(err)
	}
	return tokens.Mint(kind, "a", "alice")
}

func TestATokenIsHeldAgainstTheKeysOfTheConfig(t *testing.T) {
	path := config(t, twoKeys)
	type verdict struct {
		Verdict, Why, Kind, Key string
		Newest                  bool `json:"makes_new_tokens"`
	}
	newest := token(t, auth.AccessToken, "2027-01", newSecret)
	for name, c := range map[string]struct {
		token string
		args  []string
		code  int
		want  verdict
	}{
		"by itself":     {newest, nil, 0, verdict{"good", "", "access", "2027-01", true}},
		"of the old":    {token(t, auth.TrafficToken, "2026-12", oldSecret), nil, 0, verdict{"good", "", "traffic", "2026-12", false}},
		"its sandbox":   {newest, []string{"--sandbox", "a", "--subject", "alice"}, 0, verdict{"good", "", "access", "2027-01", true}},
		"another one":   {newest, []string{"--sandbox", "b"}, 1, verdict{"void", "it is another sandbox's, or was made with another secret of that name", "access", "2027-01", true}},
		"another owner": {newest, []string{"--sandbox", "a", "--subject", "bob"}, 1, verdict{"void", "it was made for another owner of that sandbox", "access", "2027-01", true}},
		"wrong secret": {token(t, auth.AccessToken, "2027-01", oldSecret), []string{"--sandbox", "a"}, 1,
			verdict{"void", "it is another sandbox's, or was made with another secret of that name", "access", "2027-01", true}},
		"taken away": {token(t, auth.AccessToken, "2025-01", oldSecret), nil, 1, verdict{"void", "the config has no token key of that name", "access", "2025-01", false}},
		"an API key": {"e2b_0a0b0c", nil, 1, verdict{Verdict: "void", Why: "it is an API key, see keys check"}},
		"nonsense":   {"hello", nil, 1, verdict{Verdict: "void", Why: "it is no token of this gateway's"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, c.token+"\n", secrets, append([]string{"tokens", "check", "--config", path, "--json"}, c.args...)...)
			var got verdict
			r.decode(t, c.code, &got)
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if strings.Contains(r.out+r.err, c.token) || strings.Contains(r.out+r.err, newSecret) {
				t.Errorf("a secret is in the output: %+v", r)
			}
		})
	}
}

func TestATokenIsToldToAPerson(t *testing.T) {
	r := run(t, token(t, auth.AccessToken, "2027-01", newSecret), secrets, "tokens", "check", "--config", config(t, twoKeys))
	want := "good\nkind:    access token, for commands and files (X-Access-Token)\nkey:     2027-01, with which new tokens are made\n" +
		"sandbox: not looked at, name one with --sandbox\n"
	if r.code != 0 || r.out != want {
		t.Errorf("%+v", r)
	}
}

func TestAConfigThatCannotSayExitsWithTwo(t *testing.T) {
	for name, tokens := range map[string]string{"passthrough": "passthrough", "a secret that is not set": "{\nkey a {env.E2B_TEST_NOT_SET}\n}"} {
		if r := run(t, "e2ba_x", secrets, "tokens", "check", "--config", config(t, tokens)); r.code != 2 || r.out != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := run(t, "e2ba_x", secrets, "tokens", "check", "--config", config(t, twoKeys), "--subject", "alice"); r.code != 2 || !strings.Contains(r.err, "--sandbox") {
		t.Errorf("an owner of no sandbox: %+v", r)
	}
}

func TestANewTokenKeyMakesTokens(t *testing.T) {
	r := run(t, "", nil, "tokens", "key", "new", "--id", "2027-01")
	secret := strings.TrimSpace(r.out)
	if r.code != 0 || r.err != "key 2027-01 {file./etc/e2b-gateway/token-2027-01}\n" || len(secret) < auth.MinTokenSecret {
		t.Fatalf("%+v", r)
	}
	good := token(t, auth.AccessToken, "2027-01", secret)
	env := []string{"E2B_TEST_NEW=" + secret, "E2B_TEST_OLD=" + oldSecret}
	if r := run(t, good, env, "tokens", "check", "--config", config(t, twoKeys), "--sandbox", "a"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	var made, again struct{ ID, Secret, Caddyfile string }
	run(t, "", nil, "tokens", "key", "new", "--json").decode(t, 0, &made)
	run(t, "", nil, "tokens", "key", "new", "--json").decode(t, 0, &again)
	if !auth.ValidTokenKeyID(made.ID) || made.Secret == again.Secret || !strings.Contains(made.Caddyfile, "key "+made.ID+" ") {
		t.Errorf("%+v", made)
	}
	if r := run(t, "", nil, "tokens", "key", "new", "--id", "A B"); r.code != 1 || r.out != "" {
		t.Errorf("a name that cannot be: %+v", r)
	}
}
