// Command leastproxy is Caddy with a handler that does the least that a proxy for small calls
// can do: it passes a request's headers and body on in one write, on a connection that it
// keeps, has the standard library parse the answer, and passes that on. It authorises, looks
// up, counts, limits, times and logs nothing, tries nothing again and streams nothing: what
// else a gateway does comes on top of that. Only `make bench` runs it.
package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-e2b/gateway/module" // the gateway's listener wrapper
)

func main() {
	debug.SetGCPercent(640) // the gateway's, of as little as lives here
	caddy.RegisterModule(new(least))
	httpcaddyfile.RegisterHandlerDirective("least", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		l := new(least)
		if h.Next(); !h.Args(&l.Upstream) {
			return nil, h.ArgErr()
		}
		return l, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("least", httpcaddyfile.Before, "reverse_proxy")
	caddycmd.Main()
}

// least is the handler.
type least struct {
	// Upstream is the host:port that all requests go to.
	Upstream string `json:"upstream"`

	mu   sync.Mutex
	idle []*link
}

// CaddyModule implements caddy.Module.
func (*least) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.least", New: func() caddy.Module { return new(least) }}
}

// link is a connection with its buffers.
type link struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

// maxBody is how long a body may be, in bytes, either way.
const maxBody = 4 << 10

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (l *least) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	on, err := l.take()
	if err != nil {
		return err
	}
	b := append(on.out[:0], r.Method...)
	b = append(append(b, ' '), r.RequestURI...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), r.Host...)
	for name, values := range r.Header {
		for _, v := range values {
			b = append(append(append(append(b, "\r\n"...), name...), ": "...), v...)
		}
	}
	b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), r.ContentLength, 10)
	b = append(b, "\r\n\r\n"...)
	n := len(b)
	b = b[:n+int(min(max(0, r.ContentLength), maxBody))]
	on.out = b
	if _, err = io.ReadFull(r.Body, b[n:]); err == nil {
		_, err = on.Write(b)
	}
	if err != nil {
		on.Close()
		return err
	}
	resp, err := http.ReadResponse(on.in, nil)
	if err != nil {
		on.Close()
		return err
	}
	header := w.Header()
	for name, values := range resp.Header {
		header[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	body := on.out[:min(max(0, resp.ContentLength), maxBody)]
	if _, err := io.ReadFull(resp.Body, body); err != nil {
		on.Close()
		return err
	}
	_, err = w.Write(body)
	l.put(on)
	return err
}

// take takes the connection that was used last, or makes one.
func (l *least) take() (*link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := len(l.idle) - 1; last >= 0 {
		on := l.idle[last]
		l.idle = l.idle[:last]
		return on, nil
	}
	c, err := net.Dial("tcp", l.Upstream)
	if err != nil {
		return nil, err
	}
	return &link{Conn: c, in: bufio.NewReaderSize(c, maxBody), out: make([]byte, 0, 4*maxBody)}, nil
}

func (l *least) put(on *link) {
	l.mu.Lock()
	l.idle = append(l.idle, on)
	l.mu.Unlock()
}
