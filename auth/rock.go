package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"strings"
)

// RockCipher opens what ROCK notes of the key that a sandbox was made with
// (rock_authorization_encrypted, rock/utils/crypto_utils.py): base64 of 12 bytes
// nonce, ciphertext and 16 bytes tag of AES-256-GCM. The text inside is
// "Bearer <key>", the value of X-Key, or "default" when there was no key.
type RockCipher struct {
	aead cipher.AEAD
	weak bool
}

// NewRockCipher reads ROCK's aes_encrypt_key: base64 of 32 bytes. The error
// does not show it.
func NewRockCipher(key string) (*RockCipher, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key))
	if err != nil || len(raw) != 32 {
		return nil, errors.New("an AES key of ROCK is base64 of 32 bytes")
	}
	c := &RockCipher{weak: true}
	for _, b := range raw {
		c.weak = c.weak && b == 0
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	if c.aead, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	return c, nil
}

// Weak reports the all-zero key of ROCK's sample configs: whoever can write to
// its Redis can make himself anybody.
func (c *RockCipher) Weak() bool { return c.weak }

// maxSealed bounds what is decrypted, in bytes; no header that ROCK takes is
// longer.
const maxSealed = 64 << 10

// Owner is the digest of the API key inside. It reports false when there is
// none, and when the text was not written with this cipher's key.
func (c *RockCipher) Owner(sealed string) (Digest, bool) {
	if len(sealed) > maxSealed {
		return Digest{}, false
	}
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil || len(raw) < c.aead.NonceSize()+c.aead.Overhead() {
		return Digest{}, false
	}
	text, err := c.aead.Open(nil, raw[:c.aead.NonceSize()], raw[c.aead.NonceSize():], nil)
	if err != nil {
		return Digest{}, false
	}
	key, _ := strings.CutPrefix(string(text), "Bearer ")
	if key == "" || key == "default" {
		return Digest{}, false
	}
	return DigestOf(key), true
}
