package auth

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// Redacted stands in a log where a secret was.
const Redacted = "REDACTED"

// secretNames are the headers and query parameters whose value opens something,
// in lower case and with hyphens.
var secretNames = map[string]bool{
	"x-api-key":                true,
	"x-access-token":           true,
	"e2b-traffic-access-token": true,
	"x-key":                    true,
	"xrl-authorization":        true,
	"signature":                true, // of a signed URL of envd's
	"authorization":            true, // "Bearer <API key>"
	"proxy-authorization":      true,
	"access-token":             true,
	"api-key":                  true,
}

// longestSecretName is the length of the longest of them, in bytes.
var longestSecretName = func() (n int) {
	for name := range secretNames {
		n = max(n, len(name))
	}
	return n
}()

// secretName reports a name of a secret, however it is spelled: some servers
// read "x_api_key" and "x.api.key" as "X-Api-Key".
func secretName(name string) bool {
	if len(name) > longestSecretName {
		return false
	}
	plain := make([]byte, 0, 32) // longer than any, so it stays on the stack
	for _, c := range []byte(name) {
		switch {
		case c == '_' || c == '.':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		plain = append(plain, c)
	}
	return secretNames[string(plain)]
}

// redacted is shared by all logs.
var redacted = []string{Redacted}

// RedactHeader returns headers for a log: without the values of those that are
// secret, and without secrets in those that hold an address, such as Referer.
// The headers it is given stay as they are, and are what it returns where there is
// nothing to hide.
func RedactHeader(h http.Header) http.Header {
	shown, copied := h, false
	for name, values := range h {
		switch {
		case secretName(name):
			values = redacted
		case anyContains(values, "=") || anyContains(values, "@"):
			// Only then can there be anything in it.
			values = redactAll(values)
		default:
			continue
		}
		if !copied {
			shown, copied = maps.Clone(h), true
		}
		shown[name] = values
	}
	return shown
}

func anyContains(values []string, part string) bool {
	for _, v := range values {
		if strings.Contains(v, part) {
			return true
		}
	}
	return false
}

func redactAll(values []string) []string {
	shown := make([]string, len(values))
	for i, v := range values {
		shown[i] = RedactURI(v)
	}
	return shown
}

// RedactURI returns a URI for a log: without the values of query parameters
// that are secret, and without user information. Anything else
// comes back as it is.
func RedactURI(uri string) string {
	if i, j := userInfo(uri); j > i {
		uri = uri[:i] + Redacted + uri[j:]
	}
	start := strings.IndexByte(uri, '?')
	if start < 0 {
		return uri
	}
	var b strings.Builder
	kept := 0
	for at := start + 1; at < len(uri); {
		end := len(uri)
		if i := strings.IndexByte(uri[at:], '&'); i >= 0 {
			end = at + i
		}
		if value := secretValue(uri[at:end]); value >= 0 {
			b.WriteString(uri[kept : at+value])
			b.WriteString(Redacted)
			kept = end
		}
		at = end + 1
	}
	if kept == 0 {
		return uri
	}
	return b.String() + uri[kept:]
}

// secretValue is where the value of a secret parameter begins in one part of a
// query, up to an ampersand, or -1. Some servers end a parameter at a
// semicolon, and a client's mistake may put a second question mark: a name is
// looked for after each, and the value is all that follows.
func secretValue(pair string) int {
	for at := 0; ; {
		name, rest := pair[at:], -1
		if i := strings.IndexAny(name, "=;?#"); i >= 0 {
			name, rest = name[:i], at+i
		}
		if rest < 0 {
			return -1
		}
		if pair[rest] == '=' {
			if decoded, err := url.QueryUnescape(name); err == nil && secretName(strings.TrimSpace(decoded)) {
				return rest + 1
			}
			i := strings.IndexAny(pair[rest:], ";?#")
			if i < 0 {
				return -1
			}
			rest += i
		}
		at = rest + 1
	}
}

// userInfo is where the user information of an absolute URI begins and ends;
// the two are equal if it has none.
func userInfo(uri string) (begin, end int) {
	i := strings.Index(uri, "://")
	if i < 0 {
		return 0, 0
	}
	begin = i + len("://")
	authority := uri[begin:]
	if i := strings.IndexAny(authority, "/?#"); i >= 0 {
		authority = authority[:i]
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return 0, 0
	}
	return begin, begin + at
}
