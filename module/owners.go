package module

import (
	"go.uber.org/zap"

	"github.com/caddy-e2b/gateway/auth"
)

// rockKeys opens what ROCK notes of the keys that its sandboxes were made with,
// nil without an AES key.
func rockKeys(aesKey string) (func(sealed string) ([32]byte, bool), error) {
	if aesKey == "" {
		return nil, nil
	}
	cipher, err := auth.NewRockCipher(aesKey)
	if err != nil {
		return nil, err
	}
	return func(sealed string) ([32]byte, bool) {
		digest, ok := cipher.Owner(sealed)
		return digest, ok
	}, nil
}

// warnOfSampleKeys says so when a cluster runs with the key of ROCK's sample
// configs, which everybody has.
func (a *App) warnOfSampleKeys() {
	for _, c := range a.Clusters {
		if cipher, err := auth.NewRockCipher(c.AESKey); err == nil && cipher.Weak() {
			a.logger.Warn("aes_key is the all-zero key of ROCK's sample configs: whoever reads its Redis reads the API keys in it, "+
				"and whoever writes to it can take any sandbox; give ROCK a key of its own", zap.String("cluster", c.Name))
		}
	}
}
