package websocket

import "testing"

func TestAKeyIsAnsweredAsTheSpecificationHasIt(t *testing.T) {
	// RFC 6455 section 1.3.
	if got := AcceptOf("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Error(got)
	}
	if one, other := NewKey(), NewKey(); one == other || len(one) != 24 {
		t.Errorf("%q and %q", one, other)
	}
}
