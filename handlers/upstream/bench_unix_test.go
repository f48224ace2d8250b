//go:build unix

package upstream

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/upstream/h1"
	"github.com/caddy-e2b/gateway/integration/loopback"
)

// answering is a server that answers each request, which must come in one piece, with
// the same bytes, and allocates nothing meanwhile.
func answering(t testing.TB, answer string) (address string) {
	t.Helper()
	return loopback.Serve(t, func(c net.Conn) {
		defer c.Close()
		b, out := make([]byte, 64<<10), []byte(answer)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	})
}

const smallAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Tue, 01 Dec 2026 00:00:00 GMT\r\nContent-Length: 16\r\n\r\n{\"answer\":\"yes\"}"

// smallCall makes the round trip of a small unary call, as the gateway sends it. The
// request itself is made once: it is not the client's.
func smallCall(t testing.TB, ctx context.Context, c Config) (call func()) {
	tr := New(c)
	t.Cleanup(tr.CloseIdle)
	content := []byte(`{"question":"?"}`)
	reader := bytes.NewReader(content)
	body := io.NopCloser(reader)
	r := (&http.Request{
		Method: "POST", URL: &url.URL{Scheme: "http", Host: Host("0123456789abcdef", answering(t, smallAnswer)), Opaque: "/process.Process/List"},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "49983-sandbox.example.com",
		Header: http.Header{
			"Content-Type": {"application/json"}, "User-Agent": {"connect-python/0.4"}, "Accept": {"*/*"},
			"Connect-Protocol-Version": {"1"}, "E2b-Sandbox-Id": {"sandbox"}, "E2b-Sandbox-Port": {"49983"},
			"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"https"},
		},
		ContentLength: int64(len(content)), Body: body,
		GetBody: func() (io.ReadCloser, error) { return body, nil },
	}).WithContext(ctx)
	b := make([]byte, 512)
	return func() {
		reader.Reset(content)
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(resp.Body, b[:16]); n != 16 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := resp.Body.Read(b); n != 0 || err != io.EOF {
			t.Fatal(n, err)
		}
		resp.Body.Close()
	}
}

// line is a context that a connection can be tied to.
type line struct {
	context.Context
	tied h1.Cutter
}

func (l *line) Tie(c h1.Cutter) bool { l.tied = c; return true }
func (l *line) Untie() bool          { l.tied = nil; return true }

// Ten of them are http.ReadResponse's, for three headers and a body. The others are
// the exchange and, where the context is no Lifeline, what listens to its end.
func TestWhatASmallCallAllocates(t *testing.T) {
	another, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		most float64
	}{
		"without an end":  {context.Background(), 11},
		"of a Lifeline":   {&line{Context: context.Background()}, 11},
		"of another kind": {another, 14},
	} {
		call := smallCall(t, tc.ctx, Config{})
		call()
		if n := testing.AllocsPerRun(500, call); n > tc.most+dropped || dropped == 0 && n != tc.most {
			t.Errorf("in a context %s: %v allocations", name, n)
		}
	}
}

func BenchmarkSmallCall(b *testing.B) {
	for _, client := range []Client{Lean, Standard} {
		b.Run(string(client), func(b *testing.B) {
			call := smallCall(b, b.Context(), Config{Client: client})
			call()
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}
