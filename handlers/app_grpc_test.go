package handlers

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

func TestWholeMessagesAreToldFromTornOnesHoweverTheyCome(t *testing.T) {
	const sent = "\x00\x00\x00\x00\x03abc" + "\x01\x00\x00\x00\x00" + "\x00\x00\x00\x00\x01d"
	ends := map[int]bool{0: true, 8: true, 13: true, len(sent): true}
	for size := 1; size <= len(sent); size++ {
		for end := 0; end <= len(sent); end++ {
			var got bytes.Buffer
			m := &messages{Writer: &got}
			for rest := sent[:end]; rest != ""; {
				n := min(size, len(rest))
				if _, err := io.WriteString(m, rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if m.whole() != ends[end] || got.String() != sent[:end] {
				t.Fatalf("%d bytes by %d: whole is %v, %q", end, size, m.whole(), got.String())
			}
		}
	}
}

func TestAStreamThatAnAppHasResetIsKnownByItsError(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err = io.ReadAll(resp.Body); resp.ProtoMajor != 2 || !resetByApp(err) {
		t.Errorf("HTTP/%d: %v", resp.ProtoMajor, err)
	}
	for _, other := range []error{nil, io.ErrUnexpectedEOF, errors.New("x")} {
		if resetByApp(other) {
			t.Error(other)
		}
	}
}

func TestATimeoutIsReadAsGRPCHasIt(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1H": time.Hour, "2M": 2 * time.Minute, "30S": 30 * time.Second, "200m": 200 * time.Millisecond, "7u": 7 * time.Microsecond, "0n": 0,
		"99999999H": math.MaxInt64,
	} {
		if got, ok := grpcTimeout(http.Header{"Grpc-Timeout": {value}}); !ok || got != want {
			t.Errorf("%s: %v, %t", value, got, ok)
		}
	}
	for _, h := range []http.Header{
		nil, {"Grpc-Timeout": {""}}, {"Grpc-Timeout": {"S"}}, {"Grpc-Timeout": {"1"}}, {"Grpc-Timeout": {"1s"}}, {"Grpc-Timeout": {"-1S"}},
		{"Grpc-Timeout": {"999999999S"}}, {"Grpc-Timeout": {"1S", "1S"}},
	} {
		if got, ok := grpcTimeout(h); ok {
			t.Errorf("%v: %v", h, got)
		}
	}
}

func FuzzGRPCTimeout(f *testing.F) {
	f.Add("200m")
	f.Fuzz(func(t *testing.T, value string) {
		if d, ok := grpcTimeout(http.Header{"Grpc-Timeout": {value}}); ok && (d < 0 || len(value) > 9) || !ok && d != 0 {
			t.Errorf("%q: %v, %t", value, d, ok)
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x03abc"), 2)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		if cut < 0 || cut > len(b) {
			return
		}
		var once, twice bytes.Buffer
		m, n := &messages{Writer: &once}, &messages{Writer: &twice}
		_, _ = m.Write(b)
		_, _ = n.Write(b[:cut])
		_, _ = n.Write(b[cut:])
		if m.whole() != n.whole() || !bytes.Equal(once.Bytes(), b) || !bytes.Equal(twice.Bytes(), b) {
			t.Fatalf("%q cut at %d", b, cut)
		}
	})
}

// A gRPC server resets the stream of a call whose time is over.
func TestACallOfGRPCThatIsOverdueIsToldSo(t *testing.T) {
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(60 * time.Millisecond)
		panic(http.ErrAbortHandler)
	}))
	app.Config.Protocols = new(http.Protocols)
	app.Config.Protocols.SetUnencryptedHTTP2(true)
	app.Start()
	defer app.Close()
	g := newDuplexRig(t, nil)
	g.registry.route.Ports = routing.PortsOf(map[uint16]uint16{3000: netip.MustParseAddrPort(app.Listener.Addr().String()).Port()})
	gateway := g.overHTTP2(t)["TLS"]
	for timeout, overdue := range map[string]bool{"50m": true, "1H": false, "": false} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", gateway.URL+"/echo.Echo/Say", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"3000"}}
		if timeout != "" {
			r.Header.Set("Grpc-Timeout", timeout)
		}
		resp, err := gateway.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if status := resp.Trailer.Get("Grpc-Status"); resp.StatusCode != 200 || (err == nil) != overdue || (status == "4") != overdue {
			t.Errorf("%q: %d %q, %v", timeout, resp.StatusCode, status, err)
		}
	}
}
