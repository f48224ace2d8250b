package auth

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The vectors are what the SDKs made for the token e2ba_2026-11_tok.
const (
	vectorToken = "e2ba_2026-11_tok"
	python      = "Python 2.34.0 and 2.63.0"
	javascript  = "JavaScript 2.34.0 and 2.51.0"
)

// Contract checklist 16; field reports J01, J02.
func TestSignaturesOfTheSDKsAreUnderstood(t *testing.T) {
	for _, tc := range []struct {
		by, query, token string
		op               FileOperation
	}{
		{"both SDKs, as documented", "path=%2Fa%20b&signature=v1_upXYtgfjE0sStrkhPJZclIotbVc2M%2BmbE2ySk0Np1Pw", "tok", WriteFile},
		{python, "path=%2Fa%20b%2Bc%2520%C3%A9.txt&username=user&signature=v1_ibm36Zklw3dPy2lcSHU51o61hb3aL%2Fluht8UZQbhtuo", vectorToken, ReadFile},
		{python, "path=%2Fa%20b%2Bc%2520%C3%A9.txt&username=root&signature=v1_QrTcD8Qb81%2F32fTL%2FZ52CutMG3ahmR2TZv%2F1RBwdwTA", vectorToken, WriteFile},
		{python, "path=%2Fa%20b%2Bc%2520%C3%A9.txt&signature=v1_wZaEzpU7892r3HO8jiQAGYELOWkIEffFSoUHYyb8cAY", vectorToken, ReadFile},
		{python, "path=%2Fx%3By%26z%3D1&username=user&signature=v1_njnKHlKEtP51ZKo0AJZOEDnNnGzKDWNCsVmM%2BRRuFGg&signature_expiration=1796126833", vectorToken, ReadFile},
		{javascript, "username=user&path=%2Fa+b%2Bc%2520%C3%A9.txt&signature=v1_ibm36Zklw3dPy2lcSHU51o61hb3aL%2Fluht8UZQbhtuo", vectorToken, ReadFile},
		{javascript, "path=%2Fa+b%2Bc%2520%C3%A9.txt&signature=v1_wZaEzpU7892r3HO8jiQAGYELOWkIEffFSoUHYyb8cAY", vectorToken, ReadFile},
		{javascript, "username=user&signature=v1_8%2F%2FjEOe8BTriinm%2Fow5AR1I7DNylW%2BWHbfMj14oY08g", vectorToken, WriteFile},
		{javascript, "signature=v1_TdCTRlTgVNW6cY8XnH5ND6rdCXjs2OEOUMDOUu4eNQQ", vectorToken, WriteFile},
		{javascript, "username=user&path=%2Fx%3By%26z%3D1&signature=v1_cCz1Lc88idDEGp7mMbpa5%2FA3Gs5i6bflfeIXq5sJDzA&signature_expiration=1796126801", vectorToken, ReadFile},
		{"a mail program that unescapes", "path=%2Fa%20b&signature=v1_upXYtgfjE0sStrkhPJZclIotbVc2M+mbE2ySk0Np1Pw", "tok", WriteFile},
	} {
		t.Run(tc.by, func(t *testing.T) {
			s, err := ParseSignedURL(tc.query, time.Unix(1796126800, 0))
			if err != nil || s.sign(tc.op, tc.token) != s.signature {
				t.Errorf("%s: %v", tc.query, err)
			}
		})
	}
}

func signed(k *Tokens, op FileOperation, sandboxID, subject string, query url.Values) string {
	s := SignedURL{path: query.Get("path"), user: query.Get("username"), expiration: query.Get("signature_expiration")}
	query.Set("signature", s.sign(op, k.Mint(AccessToken, sandboxID, subject)))
	return query.Encode()
}

func TestASignatureOpensOneFileOfOneSandboxForOneOperation(t *testing.T) {
	k := tokens(t, "a", "b")
	now := time.Unix(1000, 0)
	good := url.Values{"path": {"/a"}, "username": {"u"}, "signature_expiration": {"2000"}}
	opens := func(query string, op FileOperation, sandboxID, subject string) bool {
		s, err := ParseSignedURL(query, now)
		return err == nil && k.Signed(s, op, sandboxID, subject)
	}
	query := signed(k, ReadFile, "sbx-1", "alice", good)
	if !opens(query, ReadFile, "sbx-1", "alice") {
		t.Fatal("the right one does not")
	}
	if !opens(signed(tokens(t, "b"), ReadFile, "sbx-1", "alice", good), ReadFile, "sbx-1", "alice") {
		t.Error("the one of the older token key does not")
	}
	if opens(signed(tokens(t, "c"), ReadFile, "sbx-1", "alice", good), ReadFile, "sbx-1", "alice") {
		t.Error("the one of a removed token key does")
	}
	for name, refused := range map[string]bool{
		"another operation": opens(query, WriteFile, "sbx-1", "alice"),
		"another sandbox":   opens(query, ReadFile, "sbx-2", "alice"),
		"another owner":     opens(query, ReadFile, "sbx-1", "bob"),
		"nobody's":          opens(query, ReadFile, "sbx-1", ""),
		"another path":      opens(strings.Replace(query, "path=%2Fa", "path=%2Fb", 1), ReadFile, "sbx-1", "alice"),
		"another user":      opens(strings.Replace(query, "username=u", "username=v", 1), ReadFile, "sbx-1", "alice"),
		"no user":           opens(strings.Replace(query, "username=u", "", 1), ReadFile, "sbx-1", "alice"),
		"a later end":       opens(strings.Replace(query, "expiration=2000", "expiration=2001", 1), ReadFile, "sbx-1", "alice"),
		"no end":            opens(strings.Replace(query, "&signature_expiration=2000", "", 1), ReadFile, "sbx-1", "alice"),
	} {
		if refused {
			t.Errorf("%s is let in", name)
		}
	}
	sig := good.Get("signature")
	for i := range sig {
		flipped := url.Values{"path": {"/a"}, "username": {"u"}, "signature_expiration": {"2000"}, "signature": {sig[:i] + string(sig[i]^1) + sig[i+1:]}}
		if opens(flipped.Encode(), ReadFile, "sbx-1", "alice") {
			t.Errorf("one flipped bit at %d is let in", i)
		}
	}
}

// A signature names no field, so one text could be read as two requests.
func TestALinkForReadingIsNeverOneForWriting(t *testing.T) {
	k := tokens(t, "a")
	reads := url.Values{"path": {"/a:write:b"}}
	signed(k, ReadFile, "sbx-1", "alice", reads)
	writes := url.Values{"path": {"/a"}, "username": {"b:read:"}, "signature": {reads.Get("signature")}}
	s, err := ParseSignedURL(writes.Encode(), time.Unix(0, 0))
	if !errors.Is(err, ErrSignature) || k.Signed(s, WriteFile, "sbx-1", "alice") {
		t.Errorf("%v", err)
	}
}

// Field reports J01, J03.
func TestASignedURLIsReadInOneWayOnly(t *testing.T) {
	sig := "v1_" + strings.Repeat("A", 43)
	now := time.Unix(1796126800, 0)
	for _, tc := range []struct {
		query string
		want  error
	}{
		{"path=/a&signature=" + sig, nil},
		{"path=/a&&x=1&signature=" + sig, nil},
		{"path=/a", ErrNoSignature},
		{"", ErrNoSignature},
		{"path=/a&signature=", ErrSignature},
		{"path=/a&signature=" + sig + "=", ErrSignature},
		{"path=/a&signature=" + sig[:45], ErrSignature},
		{"path=/a&signature=" + sig + "&signature=" + sig, ErrSignature},
		{"path=/a&signature=" + sig + "&%73ignature=" + sig, ErrSignature},
		{"path=/a&path=/b&signature=" + sig, ErrSignature},
		{"path=/a&path&signature=" + sig, ErrSignature},
		{"username=a&username=a&signature=" + sig, ErrSignature},
		{"path=/a;path=/b&signature=" + sig, ErrQuery},
		{"path=/a#b&signature=" + sig, ErrQuery},
		{"path=%zz&signature=" + sig, ErrQuery},
		{"x=%&signature=" + sig, ErrQuery},
		{"path=%ff&signature=" + sig, ErrQuery},
		{"username=%ff&signature=" + sig, ErrQuery},
		{"path=/%C3%A9&signature=" + sig, nil},
		{"path=/\u00e9&signature=" + sig, ErrQuery},
		{"username=\u00e9&signature=" + sig, ErrQuery},
		{"path=/a&x=\xe9&signature=" + sig, ErrQuery},
		{"signature_expiration=1796126801&signature=" + sig, nil},
		{"signature_expiration=1796126800&signature=" + sig, ErrSignatureExpired},
		{"signature_expiration=1796126799&signature=" + sig, ErrSignatureExpired},
		{"signature_expiration=0&signature=" + sig, ErrSignatureExpired},
		{"signature_expiration=-1&signature=" + sig, ErrSignature},
		{"signature_expiration=&signature=" + sig, ErrSignature},
		{"signature_expiration=abc&signature=" + sig, ErrSignature},
		{"signature_expiration=%2B1796126801&signature=" + sig, ErrSignature},
		{"signature_expiration=01796126801&signature=" + sig, ErrSignature},
		{"signature_expiration=1796126801.5&signature=" + sig, ErrSignature},
		{"signature_expiration=1e18&signature=" + sig, ErrSignature},
		{"signature_expiration=99999999999999999999&signature=" + sig, ErrSignature},
		{"signature_expiration=1796126801&signature_expiration=1796126801&signature=" + sig, ErrSignature},
	} {
		if _, err := ParseSignedURL(tc.query, now); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.query, err, tc.want)
		}
	}
}

// Field report J01.
func TestTheQueryStaysAsItIsWithoutTheSignature(t *testing.T) {
	for query, want := range map[string]string{
		"":                                     "",
		"path=/a%2fb+c%20d&x":                  "path=/a%2fb+c%20d&x",
		"path=/a&signature=v1_a%2Bb":           "path=/a",
		"signature=x&path=%2Fa+b%20&&y=%zz&=":  "path=%2Fa+b%20&&y=%zz&=",
		"a=1&signature_expiration=2&b=3":       "a=1&b=3",
		"%73ignature=x&a=signature":            "a=signature",
		"signature%5Fexpiration=1&b=%73":       "b=%73",
		"signature":                            "",
		"Signature=x&signatures=y&xsignature=": "Signature=x&signatures=y&xsignature=",
	} {
		if got := WithoutSignature(query); got != want {
			t.Errorf("%q became %q, want %q", query, got, want)
		}
	}
}

// Whatever is let in was signed for what every other reader of the query sees in
// it, too.
func FuzzSignedURL(f *testing.F) {
	k := tokens(f, "a")
	f.Add("path=%2Fa+b&username=u&signature_expiration=2000", int64(1000))
	f.Add("path=/a&path=/b", int64(0))
	f.Add("path=/a;b&x=%zz", int64(0))
	f.Add("username=b:read:&signature_expiration=01", int64(0))
	f.Add("path=/\u00e9", int64(0))
	token := k.Mint(AccessToken, "s", "o")
	f.Fuzz(func(t *testing.T, query string, now int64) {
		loose, _ := url.ParseQuery(query)
		s := SignedURL{path: loose.Get("path"), user: loose.Get("username"), expiration: loose.Get("signature_expiration")}
		query += "&signature=" + url.QueryEscape(s.sign(ReadFile, token))
		left := WithoutSignature(query)
		if WithoutSignature(left) != left {
			t.Fatalf("a signature was left in %q", left)
		}
		got, err := ParseSignedURL(query, time.Unix(now, 0))
		if err != nil {
			return
		}
		if k.Signed(got, WriteFile, "s", "o") || k.Signed(got, ReadFile, "s2", "o") || k.Signed(got, ReadFile, "s", "p") {
			t.Fatalf("%q opens more than it was signed for", query)
		}
		if !k.Signed(got, ReadFile, "s", "o") {
			t.Fatalf("%q does not open what it was signed for", query)
		}
		var pairs int
		for part := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(part, "=")
			name, _ = url.QueryUnescape(name)
			value, _ = url.QueryUnescape(value)
			switch name {
			case "path":
				pairs++
				if value != got.path {
					t.Fatalf("%q is read in two ways", query)
				}
			case "signature_expiration":
				at, err := strconv.ParseInt(value, 10, 64)
				if err != nil || at <= now {
					t.Fatalf("%q is let in at %d", query, now)
				}
			case "signature":
				if b, err := base64.RawStdEncoding.DecodeString(value[3:]); err != nil || len(b) != 32 {
					t.Fatalf("%q", query)
				}
			}
		}
		if pairs > 1 {
			t.Fatalf("two paths in %q", query)
		}
		// A server in Python makes a character of each byte before it decodes.
		latin1 := make([]rune, len(query))
		for i := range len(query) {
			latin1[i] = rune(query[i])
		}
		if values, _ := url.ParseQuery(string(latin1)); values.Get("path") != got.path {
			t.Fatalf("%q is another path to Python", query)
		}
	})
}
