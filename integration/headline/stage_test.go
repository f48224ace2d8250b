package headline

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// stage is the real binary in front of a double of its own.
type stage struct {
	client.Deployment
	gateway *harness.Process
	rock    *rock.Cluster
	book    *book
	http    *http.Client
	admin   string // ROCK's admin role

	evictions *evictions
}

// proxying is what stands between the clients and the double.
type proxying string

const (
	// byGateway is our handler. Over HTTP/1.1 its registry is ROCK's control plane, over HTTP/2 a real Redis.
	byGateway proxying = "gateway"
	// byCaddy is the reverse_proxy that Caddy comes with. What newer SDKs ask for and ROCK does not have is rewritten.
	byCaddy proxying = "reverse_proxy"
)

const site = `
:80 {
	log
	log_append <command {http.request.header.Authorization}
	%s
}
`

const plain = `
	@create {
		method POST
		path /v2/sandboxes
	}
	rewrite @create /sandboxes
	@control path /sandboxes /sandboxes/*
	reverse_proxy @control %s
	reverse_proxy %s`

// open starts everything but the programs.
func open(t *testing.T, by proxying, transport harness.Transport) *stage {
	t.Helper()
	s := &stage{book: newBook(), evictions: &evictions{dying: map[string]chan time.Time{}}}
	options := rock.Options{
		TempDir: t.TempDir(), Pause: true, Records: s.evictions, ScanInterval: 250 * time.Millisecond, LogSize: 64, Envd: s.book.serve,
	}
	s.evictions.Records = rock.NewMemoryRecords()
	registry := ""
	if transport == harness.TLS2 {
		redis := redistest.Start(t, redistest.Options{})
		records := goredis.NewClient(&goredis.Options{Addr: redis.Addr})
		t.Cleanup(func() { records.Close() })
		s.evictions.Records = rock.RedisStrings{Client: records}
		registry = fmt.Sprintf("registry redis {\n address %s\n}", redis.Addr)
	}
	var err error
	if s.rock, err = rock.New(options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.rock.Close(); err != nil {
			t.Errorf("closing the double: %v", err)
		}
	})
	s.admin = s.role(t, rock.Admin)
	admin, proxy := s.admin, s.role(t, rock.Proxy)
	caddyfile := fmt.Sprintf(site, fmt.Sprintf(plain, admin, proxy))
	if by == byGateway {
		// Other tests may keep the machine so busy that the double needs longer than the second that a lookup has by default.
		caddyfile = fmt.Sprintf("{\n e2b {\n keys off\n %s\n cache {\n lookup_timeout 10s\n }\n cluster test {\n admin %s\n proxy %s\n }\n }\n}\n", registry, admin, proxy) + fmt.Sprintf(site, "e2b")
	}
	s.gateway = harness.Binary(t, caddyfile, transport)
	s.http = s.gateway.Client()
	s.http.Timeout = time.Minute
	s.Deployment = client.Deployment{
		APIURL: s.gateway.URL, SandboxURL: s.gateway.URL, CAFile: s.gateway.CAFile,
		APIKey:     "e2b_" + strings.Repeat("0a", 20),
		TemplateID: "python:3.11",
	}
	return s
}

func (s *stage) role(t *testing.T, role rock.Role) string {
	t.Helper()
	server, err := s.rock.Serve(role, "")
	if err != nil {
		t.Fatal(err)
	}
	return server.URL()
}

// undone is when a sandbox that has expired and lives was renewed meanwhile. ROCK writes the timeout anew with each call, without a look
// at what is set at the same time, and the last to write is right. The double looks for what has expired four times a second.
const undone = 5 * time.Second

// die ends a sandbox in the way that its life has planned and returns when it is dead.
func (s *stage) die(ctx context.Context, id string, l life) error {
	s.rock.SetEvictDelay(l.evict)
	switch {
	case l.death == byExpiry:
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		dead := s.rock.Sandbox(id).Done()
		for {
			err := s.control(ctx, http.MethodPost, "/sandboxes/"+id+"/timeout", `{"timeout":0}`)
			select {
			case <-dead:
				return nil
			default:
			}
			if err != nil {
				return err
			}
			select {
			case <-dead:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(undone):
			}
		}
	case l.death == byDelete && l.elsewhere:
		return s.rock.Sandbox(id).Stop(rock.Deleted)
	case l.death == byDelete:
		return s.control(ctx, http.MethodDelete, "/sandboxes/"+id, "")
	case l.elsewhere:
		return s.rock.Sandbox(id).Stop(rock.Stopped)
	default:
		return s.control(ctx, http.MethodPost, "/sandboxes/"+id+"/pause", "{}")
	}
}

// ask has the double say what it knows of a sandbox, and returns when it has.
func (s *stage) ask(ctx context.Context, id string) {
	_ = s.callTo(ctx, s.admin, http.MethodGet, "/sandboxes/"+id, "") // there is none
}

// control makes a call of the control plane.
func (s *stage) control(ctx context.Context, method, path, body string) error {
	return s.callTo(ctx, s.APIURL, method, path, body)
}

func (s *stage) callTo(ctx context.Context, base, method, path, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("X-API-Key", s.APIKey)
	r.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return err
}

// logOf are the lines of the gateway's log about a command.
func (s *stage) logOf(c command) string {
	mark := base64.StdEncoding.EncodeToString([]byte(c.user + ":"))
	var lines strings.Builder
	for line := range strings.Lines(s.gateway.Logs()) {
		if strings.Contains(line, mark) {
			lines.WriteString(line)
		}
	}
	return lines.String()
}
