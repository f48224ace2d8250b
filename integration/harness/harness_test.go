package harness_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// site answers with what the gateway saw of the connection.
const site = `
:8080 {
	respond "{http.request.proto} %s"
}
`

func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

var protocolOf = map[harness.Transport]string{harness.Cleartext: "HTTP/1.1", harness.TLS1: "HTTP/1.1", harness.TLS2: "HTTP/2.0"}

func TestAGatewayInTheProcessSpeaksTheTransportAskedFor(t *testing.T) {
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			g := inprocess.Start(t, fmt.Sprintf(site, "here"), transport)
			if got, want := get(t, g.Client(), g.URL), protocolOf[transport]+" here"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if (g.CAFile != "") != (transport != harness.Cleartext) {
				t.Errorf("CAFile is %q", g.CAFile)
			}
		})
	}
}

func TestTheBinarySpeaksTheTransportAskedFor(t *testing.T) {
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			p := harness.Binary(t, fmt.Sprintf(site, "there"), transport)
			if got, want := get(t, p.Client(), p.URL), protocolOf[transport]+" there"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			logged := func() bool { return strings.Contains(p.Logs(), "serving initial configuration") }
			for deadline := time.Now().Add(10 * time.Second); !logged(); time.Sleep(10 * time.Millisecond) { // it serves before it says so
				if time.Now().After(deadline) {
					t.Fatalf("the log of the process is missing: %q", p.Logs())
				}
			}
		})
	}
}

func TestTLS1OffersNoHTTP2(t *testing.T) {
	g := inprocess.Start(t, fmt.Sprintf(site, ""), harness.TLS1)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: g.TLS(), ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	if got := get(t, c, g.URL); !strings.HasPrefix(got, "HTTP/1.1") {
		t.Errorf("a client that offers h2 got %q", got)
	}
}

func TestEachListenerHasItsOwnAddress(t *testing.T) {
	g := inprocess.Start(t, `
:8080 {
	respond one
}
:8081 {
	respond two
}
a.sandbox.test:8082 {
	respond a
}
b.sandbox.test:8082 {
	respond b
}`)
	c := g.Client()
	if got := get(t, c, g.URLOf(":8080")) + get(t, c, g.URLOf(":8081")); got != "onetwo" {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"a", "b"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URLOf(":8082"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = name + ".sandbox.test"
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != name {
			t.Errorf("host %s: got %q", r.Host, body)
		}
	}
}

func TestTheCaddyfileKnowsThePortAndTheDomainLeadsThere(t *testing.T) {
	for _, transport := range []harness.Transport{harness.TLS1, harness.TLS2} {
		t.Run(string(transport), func(t *testing.T) {
			g := inprocess.Start(t, fmt.Sprintf(site, harness.Domain+":"+harness.Port), transport)
			host := "49983-x." + harness.Domain + g.URL[strings.LastIndex(g.URL, ":"):]
			if got, want := get(t, g.Client(), "https://"+host), protocolOf[transport]+" "+strings.TrimPrefix(host, "49983-x."); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestAReloadKeepsTheAddressAndARefusedOneTheConfig(t *testing.T) {
	g := inprocess.Start(t, fmt.Sprintf(site, "first"))
	url, c := g.URL, g.Client()
	g.Reload(fmt.Sprintf(site, "second"))
	if got := get(t, c, url); !strings.HasSuffix(got, "second") {
		t.Errorf("after the reload: %q", got)
	}
	if err := g.TryReload(":8080 {\n\tno_such_directive\n}"); err == nil {
		t.Error("a config with an unknown directive was loaded")
	}
	if got := get(t, c, url); !strings.HasSuffix(got, "second") {
		t.Errorf("after the refused reload: %q", got)
	}
}

func TestTheBinaryReloads(t *testing.T) {
	p := harness.Binary(t, fmt.Sprintf(site, "first"))
	url, c := p.URL, p.Client()
	p.Reload(fmt.Sprintf(site, "second"))
	if got := get(t, c, url); !strings.HasSuffix(got, "second") {
		t.Errorf("after the reload: %q", got)
	}
}

func TestAStoppedGatewayListensNoMore(t *testing.T) {
	g := inprocess.Start(t, fmt.Sprintf(site, ""))
	address := strings.TrimPrefix(g.URL, "http://")
	g.Stop()
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Errorf("somebody still listens on %s", address)
	}
}

// To link Caddy is most of the processor time of a suite that runs nothing but the binary.
func TestTheHarnessIsNotLinkedWithCaddy(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/caddy-e2b/gateway/integration/harness").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dependency := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(dependency, "github.com/caddyserver/") {
			t.Errorf("harness needs %s", dependency)
		}
	}
}
