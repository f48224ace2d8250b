package upstream

import (
	"context"
	"net"
	"net/http"
	"time"
)

// HTTP/2 without TLS is what servers of gRPC speak inside a sandbox, and most of
// them nothing else. Its connections are pooled like the others: all streams on
// one belong to one port of one life of one sandbox.

// newH2C makes the client for [SchemeH2C].
func newH2C(c Config, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dial,
		DisableCompression:     true,
		Protocols:              protocols,
		MaxIdleConns:           c.MaxIdle,
		MaxIdleConnsPerHost:    c.MaxIdlePerLifecycle,
		IdleConnTimeout:        c.IdleTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		HTTP2: &http.HTTP2Config{
			// What may lie here of one answer whose client does not read. Go's
			// default is 4 MiB.
			MaxReceiveBufferPerStream: 256 << 10,
		},
	}
}

// roundTripH2C sends a request at most once. net/http would repeat one that was
// refused as unprocessed, but it takes PROTOCOL_ERROR for such a refusal too, and a
// next hop may send that whatever it has done. A body that cannot be had again
// (GetBody) and is not known to be empty keeps it from doing so.
func (t *Transport) roundTripH2C(r *http.Request) (*http.Response, error) {
	c := r.WithContext(r.Context())
	u := *r.URL
	u.Scheme = "http"
	c.URL = &u
	c.GetBody = nil
	if c.Body == nil || c.Body == http.NoBody {
		c.Body = emptyBody{}
	}
	return t.h2.RoundTrip(c)
}
