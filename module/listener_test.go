package module_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/http2"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/routing"
)

// wrapped is a Caddyfile whose servers have the listener wrapper. The site at
// :8080 answers /version with version and serves the sandbox "known".
func wrapped(rock, wrapper, version string, more ...string) string {
	return fmt.Sprintf(`{
	%s
	servers {
		listener_wrappers {
			%s
		}
	}
}
:8080 {
	respond /version "%s"
	e2b
}
`, clusterOf(rock, staticSandbox), wrapper, version) + strings.Join(more, "")
}

// slowRock starts every stream at once and ends it when finish is closed.
func slowRock(finish <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/process.Process/") {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", connectStream)
		_, _ = w.Write(envelope.Append(nil, 0, []byte(`"begin"`)))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-finish:
			_, _ = w.Write(envelope.Append(nil, envelope.FlagEndStream, []byte("{}")))
		case <-r.Context().Done():
		}
	}
}

const connectStream = "application/connect+json"

// whole is the body of a stream of slowRock.
var whole = string(envelope.Append(envelope.Append(nil, 0, []byte(`"begin"`)), envelope.FlagEndStream, []byte("{}")))

var dataHeaders = []string{routing.HeaderSandboxID, "known", routing.HeaderSandboxPort, "49983"}

func startStream(c *harness.H2) (stream uint32) {
	return c.Request("POST", "/process.Process/Start", "{}", append(dataHeaders, "content-type", connectStream)...)
}

// begun waits until a stream's first message is there.
func begun(c *harness.H2, stream uint32) {
	c.Until("the first message", func() bool { return strings.Contains(c.Stream(stream).Body, "begin") })
}

// version asks for the config's version on an HTTP/1.1 connection.
func version(t *testing.T, c net.Conn) string {
	t.Helper()
	if _, err := io.WriteString(c, "GET /version HTTP/1.1\r\nHost: gateway\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func versionH2(c *harness.H2) string { return c.Wait(c.Request("GET", "/version", "")).Body }

func dial(t *testing.T, base string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", base[strings.Index(base, "://")+3:])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Contract checklist 67, field report N01.
func TestAReloadTouchesNoHTTP2Connection(t *testing.T) {
	finish := make(chan struct{})
	rock := newRock(t, slowRock(finish))
	g := inprocess.Start(t, wrapped(rock, "e2b", "one"), harness.TLS2)
	busy, idle := g.DialH2(), g.DialH2()
	stream := startStream(busy)
	begun(busy, stream)
	if got := versionH2(idle); got != "one" {
		t.Fatal(got)
	}
	for _, config := range []string{
		wrapped(rock, "e2b", "two"),
		wrapped(rock, "e2b {\nmax_concurrent_streams 2000\n}", "three"),
		strings.Replace(wrapped(rock, "e2b", "four"), "registry static", "dial_timeout 2s\nregistry static", 1),
	} {
		g.Reload(config)
		if a, b := versionH2(busy), versionH2(idle); !strings.Contains(config, `"`+a+`"`) || a != b {
			t.Errorf("after the reload requests on old connections get %q and %q", a, b)
		}
	}
	close(finish)
	if s := busy.Wait(stream); s.Body != whole || !s.Ended || s.Reset != nil {
		t.Errorf("the stream ended as %+v", s)
	}
	for _, c := range []*harness.H2{busy, idle} {
		if c.GoneAway() || c.Closed() != nil {
			t.Errorf("GOAWAY %t, closed: %v", c.GoneAway(), c.Closed())
		}
	}
}

// Contract checklist 67, field report N01.
func TestAReloadTouchesNoHTTP1Connection(t *testing.T) {
	finish := make(chan struct{})
	rock := newRock(t, slowRock(finish))
	g := inprocess.Start(t, wrapped(rock, "e2b", "one"))
	idle, busy := dial(t, g.URL), dial(t, g.URL)
	version(t, idle)
	fmt.Fprintf(busy, "POST /process.Process/Start HTTP/1.1\r\nHost: gateway\r\n%s: known\r\n%s: 49983\r\n"+
		"Content-Type: %s\r\nContent-Length: 2\r\n\r\n{}", routing.HeaderSandboxID, routing.HeaderSandboxPort, connectStream)
	answer := bufio.NewReader(busy)
	resp, err := http.ReadResponse(answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Reload(wrapped(rock, "e2b", "two"))
	if got := version(t, idle); got != "two" {
		t.Errorf("a request on an old connection gets %q", got)
	}
	close(finish)
	if body, err := io.ReadAll(resp.Body); string(body) != whole || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	if got := version(t, busy); got != "two" {
		t.Errorf("the connection of the stream gets %q", got)
	}
}

// Without the wrapper about one request in a hundred is lost.
func TestNoRequestOnAKeptConnectionIsLostInReloads(t *testing.T) {
	rock := newRock(t, noContent)
	g := inprocess.Start(t, wrapped(rock, "e2b", "0"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	for range 8 {
		c := dial(t, g.URL)
		version(t, c) // accepted
		clients.Go(func() {
			answers := bufio.NewReader(c)
			for ctx.Err() == nil {
				_, err := io.WriteString(c, "GET /version HTTP/1.1\r\nHost: gateway\r\n\r\n")
				if err == nil {
					var resp *http.Response
					if resp, err = http.ReadResponse(answers, nil); err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
					}
				}
				if err != nil {
					t.Errorf("a request was lost: %v", err)
					return
				}
			}
		})
	}
	for i := range 30 {
		g.Reload(wrapped(rock, "e2b", fmt.Sprint(i)))
	}
	stop()
	clients.Wait()
}

// The Caddyfile numbers servers in the order of their names, so another site
// can give a server the name of its neighbour.
func TestConnectionsBelongToTheAddressAndNotToTheNameOfTheServer(t *testing.T) {
	rock := newRock(t, noContent)
	g := inprocess.Start(t, wrapped(rock, "e2b", "one"))
	c := dial(t, g.URL)
	version(t, c)
	other := ":%s {\n\trespond other\n}\n"
	for _, port := range []string{"7000", "9000"} {
		g.Reload(wrapped(rock, "e2b", "two", fmt.Sprintf(other, port)))
		if got := version(t, c); got != "two" {
			t.Errorf("with another site at :%s the connection is served %q", port, got)
		}
	}
}

func TestOtherSettingsHoldForNewConnections(t *testing.T) {
	rock := newRock(t, noContent)
	g := inprocess.Start(t, wrapped(rock, "e2b", "one"), harness.TLS2)
	first := g.DialH2()
	versionH2(first)
	g.Reload(wrapped(rock, "e2b {\nmax_concurrent_streams 7\nstream_window 100KiB\n}", "two"))
	second := g.DialH2()
	versionH2(second)
	for c, want := range map[*harness.H2][2]uint32{first: {1000, 512 << 10}, second: {7, 100 << 10}} {
		if got := [2]uint32{c.Setting(http2.SettingMaxConcurrentStreams), c.Setting(http2.SettingInitialWindowSize)}; got != want {
			t.Errorf("streams and window are %d, want %d", got, want)
		}
	}
	if got := versionH2(first); got != "two" {
		t.Errorf("the first connection gets %q", got)
	}
}

// Field report N04.
func TestAReloadThatFailsChangesNothing(t *testing.T) {
	rock := newRock(t, noContent)
	good := wrapped(rock, "e2b", "one")
	g := inprocess.Start(t, good, harness.TLS2)
	c := g.DialH2()
	versionH2(c)
	before := 0
	for i := range 21 {
		bad := strings.Replace(wrapped(rock, fmt.Sprintf("e2b {\nmax_concurrent_streams %d\n}", i+1), "bad"), "{", "{\ntest_fails", 1)
		if err := g.TryReload(bad); err == nil || !strings.Contains(err.Error(), "fails on purpose") {
			t.Fatalf("the reload did not fail: %v", err)
		}
		if got := versionH2(c); got != "one" {
			t.Errorf("after reload %d that failed the connection gets %q", i, got)
		}
		if i == 0 {
			before = runtime.NumGoroutine()
		}
	}
	fresh := g.DialH2()
	if got := versionH2(fresh); got != "one" || fresh.Setting(http2.SettingMaxConcurrentStreams) != 1000 {
		t.Errorf("a new connection gets %q and %d streams", got, fresh.Setting(http2.SettingMaxConcurrentStreams))
	}
	waitFor(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before+8 })
}

// Field report I03.
func TestAnAddressThatVanishesIsClosedWhenItsRequestsHaveEnded(t *testing.T) {
	finish := make(chan struct{})
	rock := newRock(t, slowRock(finish))
	g := inprocess.Start(t, wrapped(rock, "e2b", "one"), harness.TLS2)
	c := g.DialH2()
	stream := startStream(c)
	begun(c, stream)
	g.Reload(":8081 {\n\trespond other\n}\n")
	if s := c.Wait(c.Request("GET", "/version", "")); s.Status != "421" {
		t.Errorf("a new request is answered with %s", s.Status)
	}
	if c.GoneAway() {
		t.Error("GOAWAY while a stream runs")
	}
	close(finish)
	if s := c.Wait(stream); s.Body != whole || !s.Ended {
		t.Errorf("the stream ended as %+v", s)
	}
	c.Until("the end of the connection", func() bool { return c.Closed() != nil })
	if !c.GoneAway() {
		t.Error("the connection was closed without GOAWAY")
	}
}

// Whether a client has shown a certificate is settled when it connects.
func TestConnectionsEndWithTheirRequestsWhenOtherClientCertificatesAreAskedFor(t *testing.T) {
	finish := make(chan struct{})
	// The test connects to an address, which Caddy would not have with client
	// certificates.
	config := strings.Replace(wrapped(newRock(t, slowRock(finish)), "e2b", "one"), "servers {", "servers {\nstrict_sni_host insecure_off", 1)
	g := inprocess.Start(t, config, harness.TLS2)
	c := g.DialH2()
	stream := startStream(c)
	begun(c, stream)
	asking := strings.Replace(config, ":8080 {", "https://:8080 {\ntls internal {\nclient_auth {\nmode request\n}\n}", 1)
	g.Reload(asking)
	if got := versionH2(g.DialH2()); got != "one" {
		t.Errorf("a new connection gets %q", got)
	}
	if c.GoneAway() {
		t.Error("GOAWAY while a stream runs")
	}
	close(finish)
	if s := c.Wait(stream); s.Body != whole || !s.Ended {
		t.Errorf("the stream ended as %+v", s)
	}
	c.Until("the end of the connection", func() bool { return c.Closed() != nil })

	kept := g.DialH2()
	versionH2(kept)
	g.Reload(strings.Replace(asking, `"one"`, `"two"`, 1))
	if got := versionH2(kept); got != "two" || kept.GoneAway() {
		t.Errorf("after a reload that asks for the same: %q, GOAWAY %t", got, kept.GoneAway())
	}
}

func TestAWrapperInTheWrongPlaceIsRefused(t *testing.T) {
	rock := newRock(t, noContent)
	for wrappers, want := range map[string]string{
		"e2b\ntls":            "must come after tls",
		"e2b\nproxy_protocol": "must be the last one, but proxy_protocol follows",
		"e2b\ne2b":            "must be the last one, but e2b follows",
	} {
		adapted, err := inprocess.Adapt(wrapped(rock, wrappers, "one"))
		if err == nil {
			err = caddy.Load(adapted, true)
			_ = caddy.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", wrappers, err)
		}
	}
	adapted, err := inprocess.Adapt(wrapped(rock, "e2b", "one"))
	if err != nil {
		t.Fatal(err)
	}
	mixed := strings.Replace(string(adapted), `"listener_wrappers"`, `"protocols":["h1"],"listen_protocols":[["h1","h2"]],"listener_wrappers"`, 1)
	err = caddy.Load([]byte(mixed), true)
	_ = caddy.Stop()
	if err == nil || !strings.Contains(err.Error(), "a server of its own") {
		t.Errorf("protocols by address: %v", err)
	}
}

func TestAServerWithoutTheWrapperIsWarnedAboutOnce(t *testing.T) {
	rock := newRock(t, noContent)
	for config, want := range map[string]int{
		wrapped(rock, "e2b", "one"): 0,
		"{" + clusterOf(rock, staticSandbox) + "}\n:8080 {\n\te2b data\n\te2b control\n}\n": 1,
	} {
		t.Run("", func(t *testing.T) {
			g := inprocess.Start(t, config)
			if got := strings.Count(g.Logs(), "listener_wrappers { e2b }"); got != want {
				t.Errorf("%d warnings, want %d", got, want)
			}
		})
	}
}

// What a handler can know of a connection is what it can know without the
// wrapper.
func TestARequestKnowsItsConnection(t *testing.T) {
	const site = "\n:8080 {\n\trespond \"{http.request.remote.host} {http.request.local.host} {http.request.tls.version} {http.request.tls.proto} {http.shutting_down}\"\n}\n"
	for _, transport := range harness.Transports {
		var answers []string
		for _, wrappers := range []string{"", "servers {\nlistener_wrappers {\ne2b\n}\n}\n", "servers {\nlistener_wrappers {\ntest_disguise\ne2b\n}\n}\n"} {
			t.Run("", func(t *testing.T) {
				g := inprocess.Start(t, "{\n"+wrappers+"}\n"+site, transport)
				resp, err := g.Client().Get(g.URL)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, _ := io.ReadAll(resp.Body)
				answers = append(answers, fmt.Sprintf("%s %s", resp.Proto, body))
			})
		}
		if len(slices.Compact(answers)) != 1 || !strings.Contains(answers[0], "127.0.0.1") {
			t.Errorf("%s: without the wrapper, with it, and with another before: %q", transport, answers)
		}
	}
}

// waitFor polls for what has no other way to tell.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-limit.Done():
			t.Fatalf("waited for %s in vain", what)
		}
	}
}
