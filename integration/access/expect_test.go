package access

import (
	"fmt"
	"strings"
)

// answer is what a call is told, on the wire.
type answer struct {
	status      int
	contentType string
	// body is all of the body, to the byte, unless there is a pattern for it,
	// a regular expression that matches all of it.
	body    string
	pattern string
	// grpc is the trailer Grpc-Status, where it is a header (trailers only).
	grpc string
	// hides is what the body must not hold, if it is not "".
	hides string
}

// What clients are told, to the letter.
const (
	keyRefused       = "A valid credential is required"
	notYours         = "The sandbox was not found: it has ended, it never existed, or it does not belong to this API key"
	keyLacks         = "The API key does not allow this call"
	tokenMissing     = "The header X-Access-Token is missing: the sandbox's access token is required"
	tokenRefused     = "The access token in the header X-Access-Token is not valid for this sandbox"
	signatureMissing = "The sandbox's access token in the header X-Access-Token, or a signed URL, is required"
	signatureRefused = "The signature of the URL is not valid"
	signatureExpired = "The signature of the URL has expired"
	signatureUseless = "This gateway cannot check signed URLs: the access token in the header X-Access-Token is required"
	trafficMissing   = "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing"
	trafficRefused   = "Sandbox is secured with traffic access token. Provided token in header 'e2b-traffic-access-token' is invalid"
	sandboxGone      = "The sandbox %s was not found: it was killed, it expired, or it never existed"
)

const (
	jsonType = "application/json; charset=utf-8"
	unknown  = "" // a content type that is the double's business
)

// want is the table: what a call with a credential is told.
func want(m mode, c *cast, r row, with credential) answer {
	good := answer{status: r.status, pattern: c.place(r.answer), contentType: unknown}
	switch r.shape {
	case newOne, many, one, all, native:
		switch {
		case with != valid && with != foreign:
			return plain(401, "", keyRefused)
		case r.shape == native:
			return plain(403, "", keyLacks)
		case r.shape == all:
			return plain(501, "", r.name+" is not offered by this deployment")
		case r.shape == one && with == foreign:
			return plain(404, "", notYours)
		case r.shape == many && with == foreign && r.status == 200:
			good.pattern, good.hides = `\[.*\]`, c.mine()
			if strings.Contains(r.path, "?") {
				good.pattern = `\[\]`
			}
		}
		return good
	}
	if with == valid && !(r.shape == signed && m == passthrough) || r.shape == health && with == none {
		return good
	}
	return refusal(m, c, r, with)
}

// refusal is what a call of the data plane is told that is let through nowhere.
func refusal(m mode, c *cast, r row, with credential) answer {
	id := c.target(m, r, with)
	status, code, text, sandbox := 401, "unauthenticated", tokenRefused, ""
	switch {
	case r.shape == visitor && with == none:
		status, text = 403, trafficMissing
	case r.shape == visitor && m == made && with != expired:
		status, text = 403, trafficRefused
	case r.shape == signed && with == none, r.shape == file && with == none:
		text = signatureMissing
	case r.shape == signed && m == passthrough:
		text = signatureUseless
	case r.shape == signed && with == expired:
		text = signatureExpired
	case r.shape == signed:
		text = signatureRefused
	case with == none:
		text = tokenMissing
	case m == made && with == expired, m == passthrough && with == foreign:
		// A good token of a sandbox that has ended, and a good key of somebody
		// else: both get the answer of an id that never was.
		status, code, text, sandbox = 502, "unavailable", fmt.Sprintf(sandboxGone, id), id
	}
	connect := fmt.Sprintf(`{"code":%q,"message":%q}`, code, text)
	grpcStatus := map[string]string{"unauthenticated": "16", "unavailable": "14"}[code]
	switch r.shape {
	case stream:
		return answer{200, r.contentType, frame(2, `{"error":`+connect+`}`), "", "", ""}
	case unary, socket:
		return answer{status, "application/json", connect, "", "", ""}
	case grpc:
		return answer{200, r.contentType, "", "", grpcStatus, ""}
	case grpcWeb:
		return answer{200, r.contentType, frame(0x80, "grpc-status: "+grpcStatus+"\r\ngrpc-message: "+text+"\r\n"), "", "", ""}
	}
	a := plain(status, sandbox, text)
	if r.method == "HEAD" {
		a.body = ""
	}
	return a
}

// plain is a failure in E2B's JSON.
func plain(status int, sandboxID, text string) answer {
	sandbox := ""
	if sandboxID != "" {
		sandbox = fmt.Sprintf(`"sandboxId":%q,`, sandboxID)
	}
	return answer{status, jsonType, fmt.Sprintf(`{%s"message":%q,"code":%d}`, sandbox, text, status), "", "", ""}
}

// target is the sandbox that a call is about. The expired credential of the data
// plane is a token whose sandbox has ended; signatures and keys end by the clock.
func (c *cast) target(m mode, r row, with credential) string {
	if m == made && with == expired && r.shape >= stream && r.shape != signed {
		return c.ended()
	}
	return c.mine()
}

// place puts the cast's sandboxes into a text.
func (c *cast) place(text string) string {
	return strings.NewReplacer("{id}", c.mine(), "{paused}", c.paused(), "{doomed}", c.doomed()).Replace(text)
}
