package module

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-e2b/gateway/handlers"
)

// ReverseTransport is the transport "http.reverse_proxy.transport.e2b". With it
// the streams that Caddy's own reverse_proxy relays end in the protocol,
// whatever becomes of the upstream:
//
//	reverse_proxy sandbox:49983 {
//		transport e2b
//	}
//
// It is the transport "http" with all of its options, unchanged, and one thing
// more. The answer to a streaming call of Connect (a POST whose Content-Type
// begins with application/connect+) is relayed envelope by envelope and always
// has one EndStream:
//
//   - a connection that is lost, or an answer that ends without EndStream, ends
//     with an error that says so; its code is aborted;
//   - when the end of a process was delivered and only EndStream is missing, it
//     is added, and nothing is lost; also when it does not come within 250ms;
//   - a call that is not over 500ms after its Connect-Timeout-Ms ends with
//     deadline_exceeded;
//   - what comes after EndStream is dropped;
//   - an answer that is no stream becomes an EndStream with the upstream's own
//     code and message, unless the message names something internal.
//
// An envelope of more than 1 MiB is passed on as it comes, and a cut inside it
// ends the connection. Errors of dialing stay what they are, so that
// reverse_proxy can try another upstream. An answer that was converted has
// status 200: "handle_response", "unhealthy_status" and "lb_retry_match" see no
// other for such calls. Everything else passes untouched, cuts included.
//
// Servers that have "read_body_idle" off need "request_buffers 64KiB" beside it:
// without either, net/http cuts a few streams in ten thousand over HTTP/1.1 by
// itself (golang/go#40747), and they would be told that the connection was lost.
//
// The logs of the server and of its reverse_proxy show no credential of E2B's.
//
// It needs no app "e2b" and asks no registry, so it cannot say that a sandbox is
// gone or paused; the handler "e2b" can.
type ReverseTransport struct {
	reverseproxy.HTTPTransport

	stream handlers.StreamTransport
}

// CaddyModule returns the Caddy module information.
func (ReverseTransport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.transport." + name, New: func() caddy.Module { return new(ReverseTransport) }}
}

// Provision sets up the transport "http" underneath.
func (t *ReverseTransport) Provision(ctx caddy.Context) error {
	if err := t.HTTPTransport.Provision(ctx); err != nil {
		return err
	}
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !redactProxy(ctx) || ok && !redactServer(server) {
		ctx.Logger().Warn("credentials cannot be taken out of the logs of this version of Caddy: keep levels warn and debug of " +
			"reverse_proxy, and access logs, out of the log, or remove X-Access-Token and X-Api-Key by a filter")
	}
	t.stream = handlers.StreamTransport{Next: &t.HTTPTransport, Retryable: isDialError}
	return nil
}

// isDialError reports an error after which reverse_proxy may try another
// upstream.
func isDialError(err error) bool {
	var dial reverseproxy.DialError
	return errors.As(err, &dial)
}

// RoundTrip implements http.RoundTripper.
func (t *ReverseTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.stream.RoundTrip(r)
}

var (
	_ caddy.Provisioner                                = (*ReverseTransport)(nil)
	_ caddy.CleanerUpper                               = (*ReverseTransport)(nil)
	_ caddyfile.Unmarshaler                            = (*ReverseTransport)(nil)
	_ http.RoundTripper                                = (*ReverseTransport)(nil)
	_ reverseproxy.TLSTransport                        = (*ReverseTransport)(nil)
	_ reverseproxy.H2CTransport                        = (*ReverseTransport)(nil)
	_ reverseproxy.HealthCheckSchemeOverriderTransport = (*ReverseTransport)(nil)
	_ reverseproxy.ProxyProtocolTransport              = (*ReverseTransport)(nil)
	_ reverseproxy.RequestHeaderOpsTransport           = (*ReverseTransport)(nil)
)
