package module

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
)

// contentPolicy is the Content-Security-Policy of a page that has at most one script and
// one style, both in it.
func contentPolicy(page []byte) string {
	return "default-src 'none'; script-src " + hashOf(page, "script") + "; style-src " + hashOf(page, "style") +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// hashOf allows what is between <element> and </element>, and nothing if there is none.
func hashOf(page []byte, element string) string {
	_, rest, ok := bytes.Cut(page, []byte("<"+element+">"))
	content, _, closed := bytes.Cut(rest, []byte("</"+element+">"))
	if !ok || !closed {
		return "'none'"
	}
	sum := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
