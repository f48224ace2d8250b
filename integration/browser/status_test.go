package browser

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image/png"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

var update = flag.Bool("update", false, "write the screenshots in docs/screenshots")

// siteOf is the site that docs/admin.md tells operators to put before the status page,
// because Caddy's admin endpoint refuses to be opened in a browser.
func siteOf(t *testing.T) string {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "admin.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(document), "<!-- site -->\n```caddyfile\n")
	site, _, closed := strings.Cut(rest, "```\n<!-- /site -->")
	if !ok || !closed {
		t.Fatal("docs/admin.md has no site for the status page")
	}
	return strings.ReplaceAll(site, "localhost:2019", harness.Admin)
}

// statusGateway is a gateway with a site for its status page.
func statusGateway(t *testing.T, registry string) (g *harness.Process, page string) {
	t.Helper()
	g = harness.Binary(t, `{
	e2b {
		keys off
		cluster default {
			admin http://127.0.0.1:1
			proxy http://127.0.0.1:1
			`+registry+`
		}
	}
}
:8080 {
	e2b
}
`+siteOf(t))
	return g, g.URLOf("127.0.0.1:8090")
}

func TestTheStatusPageShowsARealGateway(t *testing.T) {
	_, page := statusGateway(t, "registry static {\n\t\t\t\tsandbox known\n\t\t\t}")
	dom := dump(t, page+"/e2b/?sandbox=known")
	for _, want := range []string{"serving", "127.0.0.1:1", "it would be sent", "here: running in cluster default", "No stream runs.", "keys are off: everybody gets in"} {
		if !strings.Contains(dom, want) {
			t.Errorf("there is no %q in\n%s", want, dom)
		}
	}
	if gone := dump(t, page+"/e2b/?sandbox=unknown"); !strings.Contains(gone, "it stops: sandbox_gone") || !strings.Contains(gone, "The client is told 502") {
		t.Error(gone)
	}
}

// A site for the status page lets nobody change anything.
func TestTheSiteOfTheStatusPageIsForReading(t *testing.T) {
	_, page := statusGateway(t, "registry static {\n\t\t\t\tsandbox known\n\t\t\t}")
	for _, try := range []struct{ method, path string }{
		{"GET", "/config/"}, {"POST", "/load"}, {"POST", "/stop"}, {"DELETE", "/e2b/routes/known"}, {"PUT", "/e2b/drains/sandboxes/known"}, {"GET", "/metrics"},
		{"GET", "/e2b/../config/"}, {"GET", "/e2b/%2e%2e/config/"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), try.method, page+try.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode < 400 || strings.Contains(string(body), "apps") || strings.Contains(string(body), "invalidated") || strings.Contains(string(body), "scope") {
			t.Errorf("%s %s: %d %s", try.method, try.path, resp.StatusCode, body)
		}
	}
}

func TestTheStatusPageShowsARegistryThatIsDown(t *testing.T) {
	g, page := statusGateway(t, "registry redis {\n\t\t\t\taddress 127.0.0.1:1\n\t\t\t}")
	for range 8 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", g.URLOf(":8080")+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("E2b-Sandbox-Id", "known")
		r.Header.Set("E2b-Sandbox-Port", "49983")
		resp, err := g.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	dom := dump(t, page+"/e2b/?sandbox=known")
	for _, want := range []string{"does not answer", "registry_unavailable", "nobody can say", "are safe to repeat"} {
		if !strings.Contains(dom, want) {
			t.Errorf("there is no %q in\n%s", want, dom)
		}
	}
}

// staged is the real page with data of a test's choice.
func staged(t *testing.T, data map[string]string, change func(http.Header, string) string) string {
	t.Helper()
	g, _ := statusGateway(t, "registry static {\n\t\t\t\tsandbox known\n\t\t\t}")
	admin, err := url.Parse(g.AdminURL())
	if err != nil {
		t.Fatal(err)
	}
	real := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(admin)
			for _, name := range []string{"Origin", "Referer", "Sec-Fetch-Mode"} {
				r.Out.Header.Del(name)
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			if change == nil {
				return nil
			}
			page, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			changed := change(resp.Header, string(page))
			resp.Header.Set("Content-Length", fmt.Sprint(len(changed)))
			resp.Body = io.NopCloser(strings.NewReader(changed))
			return nil
		},
	}
	stage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := data[strings.TrimPrefix(r.URL.Path, "/e2b/")]; ok {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
			return
		}
		real.ServeHTTP(w, r)
	}))
	t.Cleanup(stage.Close)
	return stage.URL + "/e2b/"
}

// fixture is data of the page from testdata.
func fixture(t *testing.T, folder string) map[string]string {
	t.Helper()
	data := map[string]string{}
	for _, name := range []string{"status", "history", "streams", "explain"} {
		b, err := os.ReadFile(filepath.Join("testdata", folder, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		data[name] = string(b)
	}
	return data
}

// Whatever a client can choose may be code, and stays text.
func TestNothingThatIsShownOnTheStatusPageIsRun(t *testing.T) {
	const attack = `<img src=x onerror=document.title='taken'><script>document.title='taken'<\/script>\"'><svg onload=document.title='taken'>javascript:alert(1)`
	data := fixture(t, "busy")
	for name, text := range data {
		data[name] = regexp.MustCompile(`(?U)("(sandbox_id|subject|cluster|operation|client|why|cause|method|result|address|role|message|kind|mode|last_failure|drained|step|stops_at|upstream)": *)".*"`).
			ReplaceAllString(text, "$1\""+attack+"\"")
	}
	data["status"] = strings.ReplaceAll(strings.ReplaceAll(data["status"], `"eu-1"`, `"`+attack+`"`), `"sandboxes": {`, `"sandboxes": {"`+attack+`": "2026-12-01T08:00:00Z",`)
	data["history"] = strings.ReplaceAll(data["history"], `"drain":`, `"`+attack+`":`)
	dom := chromiumTo(t, "--dump-dom", staged(t, data, nil)+"?sandbox=known")
	if !strings.Contains(dom, "<title>e2b-gateway</title>") || strings.Contains(dom, "<img") || strings.Count(dom, "<script") != 1 || strings.Contains(dom, "<svg onload") {
		t.Errorf("the page was taken:\n%s", dom)
	}
	if shown := strings.Count(dom, "&lt;img src=x"); shown < 100 {
		t.Errorf("the attack is shown %d times, so it proves little", shown)
	}
}

// The page is whole when there is nothing to show.
func TestTheStatusPageOfAnIdleGateway(t *testing.T) {
	data := fixture(t, "empty")
	dom := dump(t, staged(t, data, nil))
	for _, want := range []string{"No stream runs.", "Nothing has failed", "No call took longer", "No stream has ended"} {
		if !strings.Contains(dom, want) {
			t.Errorf("there is no %q in\n%s", want, dom)
		}
	}
	if strings.Contains(dom, "NaN") || strings.Contains(dom, "undefined") {
		t.Error(dom)
	}
}

func TestTheStatusPageTakesTenThousandStreams(t *testing.T) {
	data := fixture(t, "busy")
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf(`{"id":"%d","sandbox_id":"sb-%d","sandbox_port":49983,"cluster":"eu-1","operation":"process.Process/Start","client":"192.0.2.1:%d","age_seconds":%d,"idle_seconds":null}`, i, i, i, i))
	}
	data["streams"] = `{"total":10000,"streams":[` + strings.Join(many[:10], ",") + `]}`
	data["status"] = regexp.MustCompile(`"streams": \d+,\n\t"cache"`).ReplaceAllString(data["status"], "\"streams\": 10000,\n\t\"cache\"")
	dom := dump(t, staged(t, data, nil))
	if !strings.Contains(dom, "10,000") || !strings.Contains(dom, "and 9,990 more") {
		t.Error(dom)
	}
}

// look is a way to look at the page.
type look struct {
	name          string
	width, height int // in pixels
	dark          bool
}

// looks are how the page is looked at.
var looks = []look{
	{"phone-light", 390, 4300, false}, {"phone-dark", 390, 4300, true}, {"desktop-light", 1280, 1700, false}, {"desktop-dark", 1280, 1700, true},
}

func (l look) args() []string {
	scheme := "1"
	if l.dark {
		scheme = "0"
	}
	return []string{fmt.Sprintf("--window-size=%d,%d", l.width, l.height), "--blink-settings=preferredColorScheme=" + scheme, "--hide-scrollbars",
		"--force-device-scale-factor=1", "--font-render-hinting=none", "--lang=en"}
}

func TestTheStatusPageFitsAPhoneAndADesk(t *testing.T) {
	data := fixture(t, "busy")
	// Measured by a script of the test's own, which the page's policy would not run.
	measure := `<script>setTimeout(() => document.body.setAttribute("data-fits", document.documentElement.scrollWidth + " of " + innerWidth +
		" in " + (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")), 1500)</script></body>`
	page := staged(t, data, func(h http.Header, page string) string {
		h.Del("Content-Security-Policy")
		return strings.Replace(page, "</body>", measure, 1)
	})
	for _, l := range looks {
		theme := strings.Split(l.name, "-")[1]
		want := fmt.Sprintf(`data-fits="%d of %d in %s"`, l.width, l.width, theme)
		if dom := dump(t, page+"?sandbox=sb-7f3a", l.args()...); !strings.Contains(dom, want) {
			t.Errorf("%s: %s, want %s", l.name, regexp.MustCompile(`data-fits="[^"]*"`).FindString(dom), want)
		}
	}
}

func TestTheScreenshotsAreOfThisPage(t *testing.T) {
	page := staged(t, fixture(t, "busy"), nil) + "?sandbox=sb-7f3a"
	for _, l := range looks {
		shot := screenshot(t, page, l)
		config, err := png.DecodeConfig(bytes.NewReader(shot))
		if err != nil || config.Width != l.width || config.Height != l.height {
			t.Errorf("%s: %+v %v", l.name, config, err)
		}
		file := filepath.Join("..", "..", "docs", "screenshots", "status-"+l.name+".png")
		if *update {
			if err := os.WriteFile(file, shot, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		committed, err := os.Open(file)
		if err != nil {
			t.Errorf("%v: make it with -update", err)
			continue
		}
		known, err := png.DecodeConfig(committed)
		committed.Close()
		if err != nil || known.Width != l.width || known.Height != l.height {
			t.Errorf("%s: %+v %v: make it anew with -update", file, known, err)
		}
	}
}

// WCAG 2.2, success criterion 1.4.3.
func TestTextOnTheStatusPageStandsOut(t *testing.T) {
	g, _ := statusGateway(t, "registry static {\n\t\t\t\tsandbox known\n\t\t\t}")
	resp, err := http.Get(g.AdminURL() + "/e2b/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	light, dark, ok := strings.Cut(string(page), "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("the page has one theme")
	}
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		colors := map[string]float64{}
		for _, c := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6})`).FindAllStringSubmatch(css, -1) {
			colors[c[1]] = luminance(t, c[2])
		}
		for _, pair := range [][2]string{
			{"ink", "card"}, {"ink", "ground"}, {"soft", "card"}, {"soft", "ground"}, {"accent", "card"}, {"accent", "ground"},
			{"good", "good-ground"}, {"bad", "bad-ground"}, {"warn", "warn-ground"},
		} {
			a, b := colors[pair[0]]+0.05, colors[pair[1]]+0.05
			if ratio := max(a, b) / min(a, b); ratio < 4.5 || len(colors) < 12 {
				t.Errorf("%s: %s on %s: %.2f", theme, pair[0], pair[1], ratio)
			}
		}
	}
}

// luminance is that of a color of sRGB (WCAG 2.2, "relative luminance").
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(hex, 16, 24)
	if err != nil {
		t.Fatal(err)
	}
	linear := func(v uint64) float64 {
		c := float64(v&255) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(n>>16) + 0.7152*linear(n>>8) + 0.0722*linear(n)
}

func screenshot(t *testing.T, page string, l look) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.png")
	chromiumTo(t, append(l.args(), "--screenshot="+file, page)...)
	shot, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return shot
}

// dump is what the document of the page shows, once it has shown what it has to: without
// its script, in which all that it could show is written.
func dump(t *testing.T, page string, args ...string) string {
	t.Helper()
	head, body, ok := strings.Cut(chromiumTo(t, append(args, "--dump-dom", page)...), "<body")
	if !ok {
		t.Fatalf("there is no document: %s", head)
	}
	shown, _, _ := strings.Cut(body, "<script>\n\"use strict\"")
	return shown
}

// chromiumTo runs the browser for one page. Time goes by as fast as the page has nothing to do.
func chromiumTo(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := plainChromium(ctx, t, append([]string{"--virtual-time-budget=4000"}, args...)...)
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := run(cmd); err != nil {
		t.Fatalf("%v\n%s", err, complaints.String())
	}
	return out.String()
}
