package ready

import (
	"context"
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
)

// scene is a gateway with everything behind it.
type scene struct {
	*harness.Process
	redis  *redistest.Server
	rock   *rock.Cluster
	client *http.Client
}

// open starts everything. options are lines of the gateway's global option.
func open(t *testing.T, o rock.Options, options string) *scene {
	t.Helper()
	s := &scene{redis: redistest.Start(t, redistest.Options{})}
	records := goredis.NewClient(&goredis.Options{Addr: s.redis.Addr})
	t.Cleanup(func() { records.Close() })
	o.TempDir, o.Records = t.TempDir(), rock.RedisStrings{Client: records}
	var err error
	if s.rock, err = rock.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.rock.Close() })
	admin, err := s.rock.Serve(rock.Admin, "")
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := s.rock.Serve(rock.Proxy, "")
	if err != nil {
		t.Fatal(err)
	}
	s.Process = harness.Binary(t, fmt.Sprintf(`{
	e2b {
		keys off
		%s
		registry redis {
			address %s
		}
		cluster test {
			admin %s
			proxy %s
		}
	}
}
:80 {
	e2b
}
`, options, s.redis.Addr, admin.URL(), proxy.URL()))
	s.client = s.Client()
	return s
}

// create asks for a sandbox with a given id and returns when ROCK has its first
// record. created has the status in the end.
func (s *scene) create(t *testing.T, id string) (created <-chan int) {
	t.Helper()
	status := make(chan int, 1)
	go func() {
		code, _ := s.do(t.Context(), "POST", "/sandboxes", fmt.Sprintf(`{"templateID":"base","metadata":{"ap-sandbox-id":%q},"timeout":300}`, id), "")
		status <- code
	}()
	s.await(t, "there is no record of "+id, func() bool { return s.redis.Do("GET", "alive:"+id) != nil })
	return status
}

// await polls until done, 10 s at most.
func (s *scene) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatal(what)
		}
	}
}

// do sends a request; with a sandbox id it is one of the data plane. The status is 0
// when there was no answer.
func (s *scene) do(ctx context.Context, method, path, body, sandbox string) (int, string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	if sandbox != "" {
		r.Header.Set("E2b-Sandbox-Id", sandbox)
		r.Header.Set("E2b-Sandbox-Port", "49983")
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}
