package deploy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// Contract checklist 67, field report N01: 2,000 streams and real SDKs live
// through 20 reloads, which change nothing, something else, or something of
// ours. Connections that are not in use live through them too.
func TestNothingNoticesAReload(t *testing.T) {
	for _, tc := range []struct {
		over  harness.Transport
		crowd int
		sdks  []string
	}{
		{harness.TLS2, 2000, []string{javaScript, python}},
		{harness.TLS1, 50, []string{python}},
	} {
		t.Run(string(tc.over), func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t)
			g := harness.Binary(t, d.caddyfile(wrapper, "", ""), tc.over)
			var sdks []*sdk
			for _, install := range tc.sdks {
				sdks = append(sdks, startSDK(t, install, g))
			}
			crowd := gather(t, g, tc.crowd)
			idle := keepIdle(t, g, 20)

			for i := range 20 {
				switch i % 3 {
				case 0: // nothing
					g.Reload(d.caddyfile(wrapper, "", ""))
				case 1:
					g.Reload(d.caddyfile(wrapper, "", fmt.Sprintf("header X-Reload %d", i)))
				case 2:
					g.Reload(d.caddyfile(wrapper, fmt.Sprintf("dial_timeout %dms", 2000+i), ""))
				}
				if len(crowd.results) > 0 {
					t.Fatalf("reload %d: streams have ended: %+v", i, <-crowd.results)
				}
			}

			d.untilAllSpeak(t)
			idle.use(t)
			for _, s := range sdks {
				s.finish()
			}
			close(d.finish)
			results, sent := crowd.await(t, patience), d.counts()
			for _, r := range results {
				if r.end != "{}" || r.err != nil || r.messages != sent[r.id] {
					t.Errorf("stream %s of %d messages: %+v", r.id, sent[r.id], r)
				}
			}
		})
	}
}

// idle are HTTP/1.1 connections that have been used once, and one of HTTP/2.
type idle struct {
	g     *harness.Process
	conns []*bufio.ReadWriter
	h2    *harness.H2
}

func keepIdle(t *testing.T, g *harness.Process, n int) *idle {
	t.Helper()
	k := &idle{g: g}
	for range n {
		c := g.DialTLS()
		k.conns = append(k.conns, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)))
	}
	if g.Transport == harness.TLS2 {
		k.h2 = g.DialH2()
	}
	k.use(t)
	return k
}

// use sends a request on each.
func (k *idle) use(t *testing.T) {
	t.Helper()
	for i, c := range k.conns {
		if err := k.health(c); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	if k.h2 != nil {
		s := k.h2.Wait(k.h2.Request("GET", "/health", "", "e2b-sandbox-id", "crowd", "e2b-sandbox-port", "49983"))
		if s.Status != "204" || k.h2.GoneAway() {
			t.Errorf("HTTP/2: %+v, GOAWAY %t", s, k.h2.GoneAway())
		}
	}
}

func (k *idle) health(c *bufio.ReadWriter) error {
	if err := call(k.g, "GET", "/health", "").Write(c); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 204 || resp.Close {
		return fmt.Errorf("%d, close %t: %w", resp.StatusCode, resp.Close, err)
	}
	return nil
}
