package tunnel

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/rock"
)

func hello(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %s", r.Method, r.RequestURI, r.Host, b)
}

func TestPortsAreReachedWhereTheRecordMapsThemAndElseThroughTheRocklet(t *testing.T) {
	for _, mode := range []string{"rock", "direct"} {
		for _, transport := range transports {
			t.Run(mode+", "+string(transport), func(t *testing.T) {
				s := build(t, "mode "+mode)
				g := inprocess.Start(t, s.config, transport)
				box := s.create(t, "a")
				serve(t, box, hidden, hello)
				serve(t, box, published, hello)
				client := g.Client()
				for _, port := range []int{hidden, published, hidden} {
					r := request(t, http.MethodPost, g.URL, "a", port, strings.NewReader("body"))
					r.Host = "app.example"
					if status, body := text(t, client, r); status != 200 || body != "POST /files?path=/x app.example body" {
						t.Errorf("port %d: %d %s", port, status, body)
					}
				}
				if n := box.Forwards(); n != 1 {
					t.Errorf("%d port-forwards for two requests to one port", n)
				}
			})
		}
	}
}

// Field report E14.
func TestAPortThatIsNotMappedIsNeverDialledOnTheHost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	touched := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			touched <- struct{}{}
			c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	for options, reached := range map[string]bool{"": false, "unmapped_ports tunnel": false, "unmapped_ports refuse": false, "unmapped_ports dial": true} {
		t.Run(options, func(t *testing.T) {
			s := build(t, "mode direct\n"+options)
			g := inprocess.Start(t, s.config)
			s.create(t, "a")
			resp, err := g.Client().Do(request(t, http.MethodGet, g.URL, "a", port, nil))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if !reached && resp.StatusCode != 502 || len(touched) > 0 != reached {
				t.Errorf("%d, and the host's port was touched %d times", resp.StatusCode, len(touched))
			}
			for len(touched) > 0 {
				<-touched
			}
		})
	}
}

// It takes as long as the gateway waits for an app that is about to listen, which
// is below a second on a machine that does nothing else.
func TestAPortThatIsClosedIsToldSoon(t *testing.T) {
	s := build(t, "")
	g := inprocess.Start(t, s.config)
	s.create(t, "a")
	client := g.Client()
	for _, port := range []int{hidden, published} {
		for range 2 {
			began := time.Now()
			status, body := text(t, client, request(t, http.MethodPost, g.URL, "a", port, strings.NewReader("body")))
			took := time.Since(began)
			t.Logf("port %d: %v", port, took)
			var e struct {
				Code, Port int
				Message    string
			}
			if err := json.Unmarshal([]byte(body), &e); err != nil || status != 502 || e.Code != 502 || e.Port != port ||
				!strings.Contains(e.Message, "is running but port is not open") || took > 5*time.Second {
				t.Errorf("port %d: %d %s after %v", port, status, body, took)
			}
		}
	}
}

// Nothing is sent to a sandbox on the word of a rocklet that cannot be understood.
func TestARockletWithoutPortForwardIsDontKnow(t *testing.T) {
	s := build(t, "")
	g := inprocess.Start(t, s.config)
	s.create(t, "a")
	s.rock.Faults().Add(rock.Fault{Match: rock.Match{Role: rock.Rocklet}, Kind: rock.AnswerWith, At: rock.BeforeHandler,
		Answer: rock.Answer{Status: 404, Body: "Not Found"}})
	status, body := text(t, g.Client(), request(t, http.MethodGet, g.URL, "a", hidden, nil))
	if status != 503 || strings.Contains(body, "127.0.0.1") {
		t.Errorf("%d %s", status, body)
	}
}

func TestASandboxThatIsGoneIsNotAClosedPort(t *testing.T) {
	s := build(t, "")
	g := inprocess.Start(t, s.config)
	box := s.create(t, "a")
	serve(t, box, hidden, hello)
	client := g.Client()
	if status, body := text(t, client, request(t, http.MethodGet, g.URL, "a", hidden, nil)); status != 200 {
		t.Fatal(status, body)
	}
	s.kill(t, "a")
	eventually(t, "the sandbox is said to be gone", func() bool {
		status, body := text(t, client, request(t, http.MethodGet, g.URL, "a", hidden, nil))
		return status == 502 && strings.Contains(body, "was not found")
	})
}
