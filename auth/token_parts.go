package auth

import "strings"

// TokenParts reads what a token says of itself without any key: its kind and the id
// of the key that it claims to be made with. It is false for what is no token.
func TokenParts(token string) (kind Kind, keyID string, ok bool) {
	for _, kind := range []Kind{AccessToken, TrafficToken} {
		rest, found := strings.CutPrefix(token, string(kind))
		if !found {
			continue
		}
		id, text, found := strings.Cut(rest, "_")
		if !found || !ValidTokenKeyID(id) || len(text) != tokenText.EncodedLen(tagSize+macSize) {
			return "", "", false
		}
		if _, err := strictText.DecodeString(text); err != nil {
			return "", "", false
		}
		return kind, id, true
	}
	return "", "", false
}
