package edge

import (
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// smuggled is what must never be read as a request, by anybody.
const smuggled = "GET /files?path=/smuggled HTTP/1.1\r\n" + target + "\r\n"

// Field report M16: what could be read as two messages, or ends in two places,
// is answered with an error after which the connection ends.
func TestARequestWithTwoReadingsIsRefused(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	for name, head := range map[string]string{
		"two lengths":                       "Content-Length: 3\r\nContent-Length: 4\r\n",
		"a list of lengths":                 "Content-Length: 3, 4\r\n",
		"a length with a sign":              "Content-Length: +3\r\n",
		"a negative length":                 "Content-Length: -3\r\n",
		"a length in hex":                   "Content-Length: 0x3\r\n",
		"a length with an underscore":       "Content-Length: 1_0\r\n",
		"an empty length":                   "Content-Length:\r\n",
		"an encoding nobody knows":          "Transfer-Encoding: xchunked\r\n",
		"an encoding twice":                 "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"an encoding and another":           "Transfer-Encoding: chunked, identity\r\n",
		"another encoding and it":           "Transfer-Encoding: gzip, chunked\r\n",
		"identity":                          "Transfer-Encoding: identity\r\n",
		"an encoding after a control byte":  "Transfer-Encoding: \x0bchunked\r\n",
		"an encoding in quotes":             "Transfer-Encoding: \"chunked\"\r\n",
		"a space before the colon":          "Content-Length : 3\r\n",
		"a space before the other colon":    "Transfer-Encoding : chunked\r\n",
		"a space in a name":                 "X Y: 1\r\n",
		"no name":                           ": 1\r\n",
		"a line without a colon":            "Transfer-Encoding\r\n",
		"a NUL in a value":                  "X: a\x00b\r\n",
		"a NUL in a name":                   "X\x00: a\r\n",
		"a carriage return in a value":      "X: a\rTransfer-Encoding: chunked\r\n",
		"a byte of no ASCII in a name":      "X\xff: a\r\n",
		"an expectation nobody knows":       "Expect: something\r\n",
		"two hosts":                         "Host: other.test\r\n",
		"a host that is none":               "",
		"no host":                           "",
		"a version that does not exist":     "",
		"a version with more digits":        "",
		"HTTP/2 without its preface, early": "",
	} {
		first := "POST /files?path=/x HTTP/1.1\r\n" + target
		switch name {
		case "a host that is none":
			first = strings.Replace(first, "sandbox.test", "a b", 1)
		case "no host":
			first = strings.Replace(first, "Host: sandbox.test\r\n", "", 1)
		case "a version that does not exist":
			first = strings.Replace(first, "HTTP/1.1", "HTTP/3.0", 1)
		case "a version with more digits":
			first = strings.Replace(first, "HTTP/1.1", "HTTP/1.10", 1)
		case "HTTP/2 without its preface, early":
			first = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
		}
		answer := g.raw(t, first+head+"\r\nabc"+smuggled+last)
		if s := status(answer); s != "400" && s != "501" && s != "505" && s != "417" && s != "" {
			t.Errorf("%s: %.200q", name, answer)
		}
		if strings.Count(answer, "HTTP/1.1 ") > 1 {
			t.Errorf("%s: the connection went on: %q", name, answer)
		}
		if got := g.take(); got != "" {
			t.Errorf("%s: reached the upstream: %q", name, got)
		}
	}
}

// twoEnds sends bodies that do not keep to their framing, each on a connection
// of its own with a request behind it, and returns all that has come out.
func twoEnds(t *testing.T, line string) string {
	g := open(t, harness.Cleartext, answer200)
	for name, body := range map[string]string{
		"a line feed ends a size":               "3\nabc\r\n0\r\n\r\n",
		"a line feed ends an extension":         "3;x\nabc\r\n0\r\n\r\n",
		"a carriage return in an extension":     "3;a\rb\r\nabc\r\n0\r\n\r\n",
		"a size with a sign":                    "+3\r\nabc\r\n0\r\n\r\n",
		"a size with 0x":                        "0x3\r\nabc\r\n0\r\n\r\n",
		"a size with an underscore":             "0_3\r\nabc\r\n0\r\n\r\n",
		"a size that is too large for a number": "fffffffffffffffff3\r\nabc\r\n0\r\n\r\n",
		"no size":                               "\r\nabc\r\n0\r\n\r\n",
		"more than the size":                    "3\r\nabcdef\r\n0\r\n\r\n",
		"a line feed after the data":            "3\r\nabc\n0\r\n\r\n",
	} {
		answer := g.raw(t, line+" HTTP/1.1\r\n"+target+"Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"+body+smuggled)
		if s := status(answer); s != "400" && s != "" || strings.Count(answer, "HTTP/1.1 ") > 1 {
			t.Errorf("%s: %.200q", name, answer)
		}
	}
	g.Stop()
	return g.rest()
}

// Field report M16.
func TestABodyWithTwoEndsIsNotReadAtAllOnTheControlPlane(t *testing.T) {
	if got := twoEnds(t, "POST /sandboxes"); got != "" {
		t.Errorf("reached the upstream: %q", got)
	}
}

// Field report M16.
func TestABodyWithTwoEndsTakesNothingAlong(t *testing.T) {
	if got := twoEnds(t, "POST /files?path=/x"); strings.Contains(got, "smuggled") || strings.Contains(got, "\r\n0\r\n") {
		t.Errorf("reached the upstream: %q", got)
	}
}

// Field report M16: RFC 9112 lets a server join a folded line, and take the
// encoding for the length when it is told both. What goes on has one reading.
func TestWhatIsReadInOneWayGoesOnInOneWay(t *testing.T) {
	g := open(t, harness.Cleartext, answer200)
	for name, tc := range map[string]struct{ head, want string }{
		"length first":   {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding: chunked"},
		"encoding first": {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "Transfer-Encoding: chunked"},
		"a folded line":  {"Content-Length: 0\r\nX: 1\r\n Transfer-Encoding: chunked\r\n\r\n", "X: 1 Transfer-Encoding: chunked"},
		"a length twice": {"Content-Length: 0\r\nContent-Length: 0\r\n\r\n", "Content-Length: 0"},
	} {
		answer := g.raw(t, "POST /files?path=/x HTTP/1.1\r\n"+target+tc.head+last)
		got := g.take()
		if status(answer) != "200" || strings.Count(answer, "HTTP/1.1 200") != 2 || strings.Count(got, "HTTP/1.1\r\n") != 2 ||
			strings.Count(got, tc.want) != 1 || strings.Count(got, "Content-Length")+strings.Count(got, "\nTransfer-Encoding") != 1 {
			t.Errorf("%s: %q, upstream %q", name, answer, got)
		}
	}
}
