package handlers

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// canned is an upstream that has one answer, and allocates nothing for it.
type canned struct {
	resp http.Response
	body string
	left string
	// ahead is how much of the body has come with the head.
	ahead int
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	c.left, c.resp.Body, c.resp.Request = c.body, c, r
	return &c.resp, nil
}

func (c *canned) Buffered() int { return min(len(c.left), c.ahead) }
func (c *canned) Ready() int    { return c.Buffered() }
func (c *canned) Close() error  { return nil }
func (c *canned) Read(p []byte) (int, error) {
	n := copy(p, c.left)
	if c.left = c.left[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// nobody is a client that takes everything.
type nobody struct {
	header  http.Header
	status  int
	taken   int
	flushes int
}

func (n *nobody) Header() http.Header         { return n.header }
func (n *nobody) WriteHeader(status int)      { n.status = status }
func (n *nobody) Flush()                      { n.flushes++ }
func (n *nobody) Write(p []byte) (int, error) { n.taken += len(p); return len(p), nil }

// cachedCall makes a small unary call of a client with a good token to a sandbox that is
// remembered, with nothing before the gateway and behind it. So much of the answer comes
// with its head.
func cachedCall(t testing.TB, ahead int) (call func(), client *nobody) {
	const question, answer = `{"process":{"pid":17}}`, `{"processes":[]}`
	e := &estate{routes: map[string]routing.Route{mine: owned("alice")}}
	cache := routing.NewCache(e, routing.CacheOptions{TTL: time.Hour})
	proxy, err := routing.ParseEndpoint("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	cluster := &routing.Cluster{Name: "test", Mode: routing.ModeRock, Proxy: routing.NewBalancer([]*routing.Endpoint{proxy}, nil)}
	up := &canned{body: answer, ahead: ahead, resp: http.Response{
		StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(answer)),
		Header: http.Header{"Content-Type": {unary}},
	}}
	g := New(Options{Routes: cache, Upstream: up, Clusters: []*routing.Cluster{cluster}, Access: &Access{Keys: &keyring{}, Tokens: tokens(t, "new", "old")}})
	t.Cleanup(func() { g.Close(); cache.Close() })
	r := sdkRequest()
	body := strings.NewReader(question)
	r.Body, r.ContentLength = io.NopCloser(body), int64(len(question))
	r.RequestURI, r.URL.Path = "/process.Process/List", "/process.Process/List"
	r.Header["Content-Type"] = []string{unary}
	r.Header["E2b-Sandbox-Id"] = []string{mine}
	r.Header["X-Access-Token"] = []string{tokens(t, "new").Mint(auth.AccessToken, mine, "alice")}
	w := &nobody{header: http.Header{}}
	out := new(Outcome) // the caller's
	return func() {
		clear(w.header)
		body.Reset(question)
		w.taken, w.flushes = 0, 0
		*out = Outcome{}
		g.Serve(w, r, Data, Stranger, out)
		if out.End != cause.OK || w.status != 200 || w.taken != len(answer) {
			t.Fatal(out, w)
		}
	}, w
}

// What there is: the call, the request that is sent on and its four pieces of headers,
// the two of its body, and the key of its connection. Under the race detector pools
// forget things, so the least of many runs counts.
func TestACachedCallAllocatesAtMostNineTimes(t *testing.T) {
	call, _ := cachedCall(t, 99)
	call()
	least := 1e9
	for range 100 {
		least = min(least, testing.AllocsPerRun(1, call))
	}
	if least > 9 {
		t.Errorf("%v allocations", least)
	}
}

// Each flush is a system call, and a packet.
func TestAShortAnswerIsSentInOnePiece(t *testing.T) {
	for _, ahead := range []int{99, 16, 15, 0} {
		call, client := cachedCall(t, ahead)
		if call(); client.flushes != 0 {
			t.Errorf("%d bytes of the answer came with its head: it was flushed %d times", ahead, client.flushes)
		}
	}
}

func BenchmarkCachedCall(b *testing.B) {
	call, _ := cachedCall(b, 99)
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
}
