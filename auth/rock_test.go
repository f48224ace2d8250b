package auth

import (
	"bytes"
	"encoding/base64"
	"testing"
)

func rockCipher(t testing.TB, b byte) *RockCipher {
	t.Helper()
	c, err := NewRockCipher(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *RockCipher) seal(text string) string {
	nonce := bytes.Repeat([]byte{7}, c.aead.NonceSize())
	return base64.StdEncoding.EncodeToString(c.aead.Seal(nonce, nonce, []byte(text), nil))
}

func TestTheKeyThatMadeASandboxIsReadFromRocksRecord(t *testing.T) {
	c := rockCipher(t, 1)
	for text, key := range map[string]string{
		"Bearer e2b_1": "e2b_1",
		"e2b_1":        "e2b_1", // X-Key
		"default":      "",
		"":             "",
		"Bearer ":      "",
	} {
		digest, ok := c.Owner(c.seal(text))
		if ok != (key != "") || ok && digest != DigestOf(key) {
			t.Errorf("%q: %v %v", text, digest, ok)
		}
	}
	good := c.seal("Bearer e2b_1")
	for name, sealed := range map[string]string{
		"another key": rockCipher(t, 2).seal("Bearer e2b_1"),
		"cut":         good[:len(good)-4],
		"not base64":  "!" + good,
		"empty":       "",
		"short":       "AAAA",
	} {
		if _, ok := c.Owner(sealed); ok {
			t.Errorf("%s is believed", name)
		}
	}
}

func TestRocksSampleKeyIsKnown(t *testing.T) {
	if !rockCipher(t, 0).Weak() || rockCipher(t, 1).Weak() {
		t.Error("weak is not weak, or strong is")
	}
	for _, key := range []string{"", "AAAA", "secret-that-is-not-base64!"} {
		if _, err := NewRockCipher(key); err == nil || key != "" && bytes.Contains([]byte(err.Error()), []byte(key)) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func FuzzRockOwner(f *testing.F) {
	c := rockCipher(f, 1)
	f.Add(c.seal("Bearer e2b_1"))
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, sealed string) {
		// Nobody finds another text that is good, but base64 has several
		// spellings of one.
		if digest, ok := c.Owner(sealed); ok && digest != DigestOf("e2b_1") {
			t.Fatalf("%q", sealed)
		}
	})
}
