package tunnel

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// Ports inside the sandboxes. Only one is mapped.
const (
	hidden    = 8000
	published = 8080
)

// scene is a ROCK deployment and what a gateway must know of it.
type scene struct {
	rock   *rock.Cluster
	admin  string
	config string
	// byControl is config with registry control in place of Redis.
	byControl string
}

// build makes the deployment. options are lines of the cluster's block.
func build(t testing.TB, options string, change ...func(*rock.Options)) *scene {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	records := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	t.Cleanup(func() { records.Close() })
	o := rock.Options{TempDir: t.TempDir(), Records: rock.RedisStrings{Client: records}, Rocklet: true, Published: []int{published}}
	for _, f := range change {
		f(&o)
	}
	c, err := rock.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	admin, err := c.Serve(rock.Admin, "")
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := c.Serve(rock.Proxy, "")
	if err != nil {
		t.Fatal(err)
	}
	config := func(registry string) string {
		return fmt.Sprintf(`{
	e2b {
		keys off
		registry %s
		cluster test {
			admin %s
			proxy %s
			allow 127.0.0.1/32
			%s
		}
	}
}
:80 {
	e2b
}
`, registry, admin.URL(), proxy.URL(), options)
	}
	return &scene{c, admin.URL(), config("redis {\naddress " + server.Addr + "\n}"), config("control")}
}

// create makes a sandbox, past the gateway.
func (s *scene) create(t testing.TB, id string) *rock.Sandbox {
	t.Helper()
	resp, err := http.Post(s.admin+"/sandboxes", "application/json",
		strings.NewReader(`{"templateID":"base","timeout":300,"metadata":{"ap-sandbox-id":"`+id+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status)
	}
	return s.rock.Sandbox(id)
}

// kill ends a sandbox, past the gateway.
func (s *scene) kill(t testing.TB, id string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodDelete, s.admin+"/sandboxes/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// listen opens a port in a sandbox.
func listen(t testing.TB, s *rock.Sandbox, port int) net.Listener {
	t.Helper()
	l, err := s.Listen(port)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve serves HTTP/1.1 on a port in a sandbox.
func serve(t testing.TB, s *rock.Sandbox, port int, h http.HandlerFunc) *http.Server {
	t.Helper()
	server := &http.Server{Handler: h}
	l := listen(t, s, port)
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return server
}

// request is one for a port of a sandbox.
func request(t testing.TB, method, base, id string, port int, body io.Reader) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, base+"/files?path=/x", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("E2b-Sandbox-Id", id)
	r.Header.Set("E2b-Sandbox-Port", strconv.Itoa(port))
	return r
}

// text is the status and the body of an answer.
func text(t testing.TB, c *http.Client, r *http.Request) (int, string) {
	t.Helper()
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := time.After(15 * time.Second)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// transports are those on which ports are asked for.
var transports = []harness.Transport{harness.Cleartext, harness.TLS2}
