package e2bcaddyfile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-e2b/gateway/auth"
)

const oneCluster = `"clusters": [{"name":"a","admin":["http://a"],"proxy":["http://a"]}]`

func TestAJSONConfigSaysWhoGetsIn(t *testing.T) {
	long := strings.Repeat("s", 32)
	for name, test := range map[string]struct{ options, rule string }{
		"nobody has said":     {``, "who gets in"},
		"off":                 {`"keys":{"store":"off"}`, ""},
		"off, but tokens":     {`"keys":{"store":"off"},"tokens":{"passthrough":true}`, "lets everybody in"},
		"off, but unowned":    {`"keys":{"store":"off"},"unowned":"deny"`, "lets everybody in"},
		"off, but health":     {`"keys":{"store":"off"},"health":"private"`, "lets everybody in"},
		"no tokens":           {`"keys":{"store":"static"}`, "needs tokens"},
		"no token key":        {`"keys":{"store":"static"},"tokens":{}`, "needs a key"},
		"passthrough":         {`"keys":{"store":"static"},"tokens":{"passthrough":true}`, ""},
		"passthrough, keys":   {`"keys":{"store":"static"},"tokens":{"passthrough":true,"keys":[{"id":"a","secret":"` + long + `"}]}`, "needs no keys"},
		"a key is null":       {`"keys":{"store":"static"},"tokens":{"keys":[null]}`, "null"},
		"a key without an id": {`"keys":{"store":"static"},"tokens":{"keys":[{"secret":"` + long + `"}]}`, "the id of a key"},
		"a key twice":         {`"keys":{"store":"static"},"tokens":{"keys":[{"id":"a","secret":"` + long + `"},{"id":"a","secret":"` + long + `"}]}`, "twice"},
		"an empty secret":     {`"keys":{"store":"static"},"tokens":{"keys":[{"id":"a"}]}`, "no secret"},
		"a short secret":      {`"keys":{"store":"static"},"tokens":{"keys":[{"id":"a","secret":"` + long[1:] + `"}]}`, "31 bytes"},
		"a long secret":       {`"keys":{"store":"static"},"tokens":{"keys":[{"id":"a","secret":"` + long + `"}]}`, ""},
		"unowned":             {`"keys":{"store":"static"},"tokens":{"passthrough":true},"unowned":"maybe"`, "deny or allow"},
		"health":              {`"keys":{"store":"static"},"tokens":{"passthrough":true},"health":"poor"`, "public or private"},
	} {
		t.Run(name, func(t *testing.T) {
			var c Config
			if err := json.Unmarshal([]byte("{"+strings.TrimSuffix(oneCluster+","+test.options, ",")+"}"), &c); err != nil {
				t.Fatal(err)
			}
			err := c.Check()
			if test.rule == "" && err != nil || test.rule != "" && (err == nil || !strings.Contains(err.Error(), test.rule)) {
				t.Errorf("want an error with %q, got %v", test.rule, err)
			}
		})
	}
}

func TestASecretWrittenOutIsRefusedWithoutBeingQuoted(t *testing.T) {
	const canary = "canary0000000000000000000000000000000000000="
	for name, text := range map[string]string{
		"token key":              "e2b {\n tokens {\n key a " + canary + "\n }\n}",
		"token key first":        "e2b {\n tokens {\n key " + canary + " a\n }\n}",
		"token key, part":        "e2b {\n tokens {\n key a " + canary + "{env.X}\n }\n}",
		"token key, two words":   "e2b {\n tokens {\n key a {env.X} " + canary + "\n }\n}",
		"token key, placeholder": "e2b {\n tokens {\n key a {time.now." + canary + "}\n }\n}",
		"aes_key":                "e2b {\n cluster a {\n aes_key " + canary + "\n }\n}",
		"aes_key, two words":     "e2b {\n cluster a {\n aes_key " + canary + " x\n }\n}",
		"redis password":         "e2b {\n keys redis {\n password " + canary + "\n }\n}",
		"sentinel_password":      "e2b {\n keys redis {\n sentinel_password " + canary + "\n }\n}",
		"bearer":                 "e2b {\n keys http http://a {\n bearer " + canary + "\n }\n}",
		"password in a URL":      "e2b {\n\n keys http http://a:" + canary + "@a\n}",
		"static key":             "e2b {\n keys static {\n key e2b_" + canary + " me\n }\n}",
		"static key first":       "e2b {\n keys static {\n key me " + canary + "\n }\n}",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, text)
			if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "Caddyfile:3") {
				t.Errorf("got %v", err)
			}
		})
	}
	for name, text := range map[string]string{
		"token key": `{"tokens":{"keys":[{"id":"a","secret":"` + canary + `"}]}}`,
		"aes_key":   `{"clusters":[{"name":"a","aes_key":"` + canary + `"}]}`,
	} {
		t.Run("JSON, "+name, func(t *testing.T) {
			var c Config
			if err := json.Unmarshal([]byte(text), &c); err != nil {
				t.Fatal(err)
			}
			if err := c.CheckSecrets(); err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAnAESKeyIsCheckedOnceItIsExpanded(t *testing.T) {
	c, err := parse(t, "e2b {\n keys off\n cluster a {\n admin http://a\n proxy http://b\n aes_key {env.AES}\n }\n}")
	if err != nil {
		t.Fatal(err)
	}
	c.Clusters[0].AESKey = "AAAA"
	if err := c.Check(); err == nil || strings.Contains(err.Error(), "AAAA") {
		t.Errorf("got %v", err)
	}
	c.Clusters[0].AESKey = strings.Repeat("A", 43) + "="
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// FuzzKeys: what the parser accepts is what Check accepts.
func FuzzKeys(f *testing.F) {
	digest := auth.DigestOf("x").String()
	f.Add("static {\n key " + digest + " me\n}")
	f.Add("static {\n key " + digest + " me {\n scopes control admin\n expires 2027-01-01T00:00:00Z\n disabled\n user_id u\n streams off\n requests 0.5\n creates 1\n body 1MiB\n }\n}")
	f.Add("static")
	f.Add("file /etc/keys")
	f.Add("redis {\n address a:1\n password {env.X}\n prefix p\n questions 3\n size 5\n}")
	f.Add("http http://a/b {\n bearer {env.X}\n timeout 1s\n tls {\n ca x\n }\n}")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := caddyfile.Tokenize([]byte(text), "Caddyfile")
		if err != nil {
			return
		}
		for _, store := range []interface {
			caddyfile.Unmarshaler
			Check() error
		}{new(StaticKeysConfig), new(FileKeysConfig), new(RedisKeysConfig), new(HTTPKeysConfig)} {
			if store.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)) == nil && store.Check() != nil {
				t.Errorf("%T: %q is accepted but wrong: %v", store, text, store.Check())
			}
		}
	})
}
