package module

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// silence takes Caddy's idle timeouts off calls of the data plane, see
// [handlers.Silence]. Without it read_body_idle (60s by default) resets the HTTP/2
// stream of a client that has nothing to say, even while the sandbox is sending.
// Caddy's timeouts stay on the control plane, whose bodies are short.
type silence struct{}

// allowed is longer than any call of the data plane lives. It is not zero
// because a zero or negative timeout would be over before it began.
const allowed = 24 * time.Hour

// OfReader implements [handlers.Silence].
func (silence) OfReader(r *http.Request) (restore func()) {
	if reader, _ := caddyhttp.IdleTimeoutsFromContext(r.Context()); reader != nil {
		return reader.Override(allowed, 0)
	}
	return func() {}
}

// OfWriter implements [handlers.Silence].
func (silence) OfWriter(r *http.Request) (restore func()) {
	if _, writer := caddyhttp.IdleTimeoutsFromContext(r.Context()); writer != nil {
		return writer.Override(allowed, 0, 0)
	}
	return func() {}
}
