package harness

// Transport is how clients connect to a gateway.
type Transport string

const (
	// Cleartext is HTTP/1.1 over TCP. It is the default.
	Cleartext Transport = "cleartext"
	// TLS1 is TLS that offers http/1.1 only by ALPN.
	TLS1 Transport = "tls-h1"
	// TLS2 is TLS that offers h2 and http/1.1 by ALPN.
	TLS2 Transport = "tls-h2"
)

// Transports are all of them, for tests that run over each.
var Transports = []Transport{Cleartext, TLS1, TLS2}

func (t Transport) secure() bool { return t == TLS1 || t == TLS2 }

func (t Transport) scheme() string {
	if t.secure() {
		return "https"
	}
	return "http"
}

// protocols are Caddy's names for what the server speaks.
func (t Transport) protocols() []string {
	if t == TLS2 {
		return []string{"h1", "h2"}
	}
	return []string{"h1"}
}

func (t Transport) alpn() []string {
	if t == TLS2 {
		return []string{"h2", "http/1.1"}
	}
	return []string{"http/1.1"}
}
