package auth

// TokenParts reads what a token says of itself without any key: its kind and the id
// of the key that it claims to be made with. It is false for what is no token.
func TokenParts(token string) (kind Kind, keyID string, ok bool) {
	var payload [tagSize + macSize]byte
	for _, kind := range []Kind{AccessToken, TrafficToken} {
		if id, ok := takeApart(kind, token, &payload); ok && ValidTokenKeyID(id) {
			return kind, id, true
		}
	}
	return "", "", false
}
