package handlers

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// link signs a target of /files as the SDKs do.
func (g *guarded) link(t *testing.T, id, subject string, op auth.FileOperation, target string) string {
	t.Helper()
	return sign(t, g.token(subject, id), op, target)
}

func sign(t *testing.T, token string, op auth.FileOperation, target string) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	text := q.Get("path") + ":" + string(op) + ":" + q.Get("username") + ":" + token
	if exp := q.Get("signature_expiration"); exp != "" {
		text += ":" + exp
	}
	sum := sha256.Sum256([]byte(text))
	return target + "&signature=" + url.QueryEscape("v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
}

func in(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }

// Contract checklist 12, 16; field reports J01, J02. With mode rock nobody needs
// the signature any more.
func TestASignedURLOpensItsFile(t *testing.T) {
	for _, tc := range []struct {
		name, method string
		op           auth.FileOperation
		target       string
	}{
		{"a read", "GET", auth.ReadFile, "/files?path=%2Fa"},
		{"a look", "HEAD", auth.ReadFile, "/files?path=%2Fa"},
		{"a write", "POST", auth.WriteFile, "/files?path=%2Fa"},
		{"as Python writes it", "GET", auth.ReadFile, "/files?path=%2Fa%20b%2Bc%2520%C3%A9.txt&username=user"},
		{"as JavaScript writes it", "GET", auth.ReadFile, "/files?username=user&path=%2Fa+b%2Bc%2520%C3%A9.txt"},
		{"an upload of several files", "POST", auth.WriteFile, "/files?username=user"},
		{"with more in the query", "GET", auth.ReadFile, "/files?x=%7e&&path=/a%2fb&y=1+2&z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGuarded(t)
			for _, exp := range []string{"", "&signature_expiration=" + in(time.Hour)} {
				r := g.try(t, kind{"", tc.method, g.link(t, mine, "alice", tc.op, tc.target+exp), "", nil}, mine)
				if r.status != 200 || g.got.RequestURI != tc.target {
					t.Errorf("%d %s: %+v", r.status, r.body, g.got)
				}
			}
			// A browser or a program between may have unescaped the signature.
			link := g.link(t, mine, "alice", tc.op, tc.target)
			at := strings.Index(link, "&signature=")
			raw := link[:at] + strings.NewReplacer("%2B", "+", "%2F", "/").Replace(link[at:])
			if r := g.try(t, kind{"", tc.method, raw, "", nil}, mine); r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
}

// Contract checklist 16; field report J03.
func TestASignedURLOpensNothingElse(t *testing.T) {
	g := newGuarded(t)
	read := g.link(t, mine, "alice", auth.ReadFile, "/files?path=%2Fa")
	write := g.link(t, mine, "alice", auth.WriteFile, "/files?path=%2Fa")
	sig := read[strings.Index(read, "&signature="):]
	until := func(exp string) string {
		return g.link(t, mine, "alice", auth.ReadFile, "/files?path=%2Fa&signature_expiration="+exp)
	}
	flipped := []byte(read)
	flipped[len(flipped)-5] ^= 1
	for _, tc := range []struct {
		name, method, target string
		want                 cause.Failure
		lookups              bool
	}{
		{"a read for a write", "POST", read, signatureWrong, true},
		{"a write for a read", "GET", write, signatureWrong, true},
		{"a write for a look", "HEAD", write, signatureWrong, true},
		{"a write for another method", "PUT", write, tokenMissing, false},
		{"a read for a removal", "DELETE", read, tokenMissing, false},
		{"another path", "GET", "/files?path=%2Fb" + sig, signatureWrong, true},
		{"another user", "GET", read + "&username=root", signatureWrong, true},
		{"one character", "GET", string(flipped), signatureWrong, true},
		{"another owner", "GET", g.link(t, mine, "bob", auth.ReadFile, "/files?path=%2Fa"), signatureWrong, true},
		{"another sandbox", "GET", g.link(t, hers, "alice", auth.ReadFile, "/files?path=%2Fa"), signatureWrong, true},
		{"a removed key", "GET", sign(t, tokens(t, "gone").Mint(auth.AccessToken, mine, "alice"), auth.ReadFile, "/files?path=%2Fa"), signatureWrong, true},
		{"half a signature", "GET", read[:len(read)-1], signatureWrong, false},
		{"two signatures", "GET", read + sig, signatureWrong, false},
		{"two paths", "GET", read + "&path=%2Fb", signatureWrong, false},
		{"no signature", "GET", "/files?path=%2Fa", signatureMissing, false},
		{"a query of two readings", "GET", read + "&a;b", queryUnreadable, false},
		{"over", "GET", until(in(-time.Minute)), signatureExpired, false},
		{"just over", "GET", until(in(0)), signatureExpired, false},
		{"never begun", "GET", until("0"), signatureExpired, false},
		{"negative", "GET", until("-1"), signatureWrong, false},
		{"20 digits", "GET", until("99999999999999999999"), signatureWrong, false},
		{"no number", "GET", until("abc"), signatureWrong, false},
		{"two ends", "GET", until(in(time.Hour)) + "&signature_expiration=" + in(time.Hour), signatureWrong, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := kind{tc.name, tc.method, tc.target, "", nil}
			if tc.method == "HEAD" {
				k.name = "look"
			}
			g.cache.Invalidate(mine)
			before := g.estate.lookups()
			k.told(t, g.try(t, k, mine), tc.want)
			if asked := g.estate.lookups() > before; asked != tc.lookups {
				t.Errorf("the registry was asked: %v", asked)
			}
		})
	}
	// An RPC, a socket and another port know no signatures.
	callKinds[2].told(t, g.try(t, kind{"unary", "POST", stat + read[len("/files"):], unary, nil}, mine), tokenMissing)
	socket := kind{"", "GET", read, "", callKinds[len(callKinds)-1].headers}
	socket.told(t, g.try(t, socket, mine), tokenMissing)
	socket.told(t, g.send(t, "GET", read, "", "", "E2b-Sandbox-Id", mine, "E2b-Sandbox-Port", "3000"), trafficTokenMissing)
	if g.upstreamHits.Load() != 0 {
		t.Error("something got through")
	}
}

// Contract checklist 17.
func TestATokenDecidesAndTheSignatureDoesNot(t *testing.T) {
	g := newGuarded(t)
	good := g.link(t, mine, "alice", auth.ReadFile, "/files?path=%2Fa")
	k := kind{"", "GET", good, "", nil}
	k.told(t, g.try(t, k, mine, "wrong"), tokenWrong)
	k.told(t, g.try(t, k, mine, ""), tokenWrong)
	for _, target := range []string{"/files?path=%2Fa&signature=v1_x", "/files?path=%2Fa&path=%2Fa&signature=&signature_expiration=0"} {
		k.target = target
		if r := g.try(t, k, mine, g.token("alice", mine)); r.status != 200 || strings.Contains(g.got.RequestURI, "signature") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

// A wrong signature, a foreign sandbox and none look the same, also while the
// registry is silent.
func TestALinkTellsNothingOfSandboxes(t *testing.T) {
	g := newGuarded(t)
	paused := owned("bob")
	paused.State = routing.StatePaused
	g.estate.put("paused", paused)
	link := func(id string) kind {
		return kind{"", "GET", g.link(t, id, "alice", auth.ReadFile, "/files?path=%2Fa"), "", nil}
	}
	want := g.try(t, link(hers), hers)
	link(hers).told(t, want, signatureWrong)
	for _, id := range []string{hers, nowhere, stray, "paused"} {
		for range 2 {
			if got := g.try(t, link(id), id); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v", id, got)
			}
		}
	}
	for _, err := range []error{routing.ErrUnavailable, routing.ErrMalformed} {
		g.estate.fail(err)
		for _, id := range []string{hers, nowhere} {
			g.cache.Invalidate(id)
			link(id).told(t, g.try(t, link(id), id), cause.Failure{Cause: cause.RegistryUnavailable, SandboxID: id})
		}
	}
	g.estate.fail(nil)
	g.estate.put(mine, func() routing.Route { r := owned("alice"); r.State = routing.StatePaused; return r }())
	if r := g.try(t, link(mine), mine); r.status != 400 {
		t.Errorf("the owner's link to a paused sandbox: %d %s", r.status, r.body)
	}
}

func TestSignedURLsNeedTokensMadeHere(t *testing.T) {
	g := newGuarded(t, func(g *guarded, _ *Options) { g.access.Tokens = nil })
	k := kind{"", "GET", sign(t, "e2b_a11ce", auth.ReadFile, "/files?path=%2Fa"), "", nil}
	k.told(t, g.try(t, k, mine), signatureUnknown)
	if g.estate.lookups() != 0 || g.upstreamHits.Load() != 0 {
		t.Error("it went on")
	}
}
