package e2bcaddyfile

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestARedisPasswordWrittenOutIsRefusedWithoutBeingQuoted(t *testing.T) {
	const canary = "canary-password"
	for name, line := range map[string]string{
		"password":                   "password " + canary,
		"password, two words":        "password x " + canary,
		"password, block":            "password {env.X} {\n " + canary + "\n }",
		"password, part":             "password {env.X}" + canary,
		"password, other":            "password {http.request.header." + canary + "}",
		"sentinel_password":          "sentinel_password " + canary,
		"address with a password":    "address user:" + canary + "@redis:6379",
		"address as a URL":           "address redis://:" + canary + "@redis:6379/0",
		"URL instead of the options": "}\n }\n e2b {\n registry redis redis://:" + canary + "@redis:6379 {",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, "e2b {\n registry redis {\n "+line+"\n }\n}")
			if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "Caddyfile:") {
				t.Errorf("got %v", err)
			}
		})
	}
	for name, text := range map[string]string{
		"password":          `{"addresses":["a:1"],"password":"` + canary + `"}`,
		"sentinel password": `{"addresses":["a:1"],"sentinel":{"master":"m","password":"` + canary + `"}}`,
	} {
		t.Run("JSON, "+name, func(t *testing.T) {
			var r RedisConfig
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			if err := r.CheckSecrets(); err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v", err)
			}
		})
	}
}
