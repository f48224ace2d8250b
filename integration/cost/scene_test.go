package cost

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
)

const (
	apiKey  = "e2b_000000000000000000000000000000000000000a"
	call    = "/process.Process/List"
	sandbox = "cost-1"
)

// scene is what stands around a gateway: a real Redis, a ROCK that makes the
// sandbox, and in place of the sandbox an upstream that costs nothing.
type scene struct {
	redis     *redistest.Server
	caddyfile string
}

// setUp writes a Caddyfile with everything on: keys, tokens, a registry in Redis,
// metrics and the listener wrapper. The gateway is at :80; at :81, on a server of the
// same settings, is the floor: Caddy's respond with the same answer. site are more lines
// of both sites.
func setUp(t testing.TB, site string) *scene {
	t.Helper()
	s := &scene{redis: redistest.Start(t, redistest.Options{})}
	records := goredis.NewClient(&goredis.Options{Addr: s.redis.Addr})
	t.Cleanup(func() { records.Close() })
	double, err := rock.New(rock.Options{TempDir: t.TempDir(), Records: rock.RedisStrings{Client: records}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { double.Close() })
	admin, err := double.Serve(rock.Admin, "")
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, fmt.Appendf(nil, `{"keys": [{"digest": %q, "subject": "alice"}]}`, auth.DigestOf(apiKey)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOKEN_KEY", strings.Repeat("k", auth.MinTokenSecret))
	s.caddyfile = fmt.Sprintf(`{
	metrics
	servers {
		listener_wrappers {
			e2b
		}
	}
	e2b {
		registry redis {
			address %s
		}
		cache {
			ttl 1h
		}
		cluster default {
			admin %s
			proxy http://%s
		}
		keys file %s
		tokens {
			key k1 {env.TOKEN_KEY}
		}
	}
}
:80 {
	%s
	e2b
}
:81 {
	%[5]s
	respond %[6]q
}
`, s.redis.Addr, admin.URL(), serveRaw(t), keys, site, answer)
	return s
}

// create makes the sandbox and returns its access token.
func create(t testing.TB, client *http.Client, url string) (token string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/sandboxes",
		strings.NewReader(`{"templateID":"base","timeout":3600,"metadata":{"ap-sandbox-id":"`+sandbox+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"X-Api-Key": {apiKey}, "Content-Type": {"application/json"}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct {
		Token string `json:"envdAccessToken"`
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusCreated || json.Unmarshal(b, &made) != nil || made.Token == "" {
		t.Fatalf("create: %d %v %s", resp.StatusCode, err, b)
	}
	return made.Token
}

// client is a connection on which requests allocate nothing.
type client struct {
	net.Conn
	in [4 << 10]byte
}

func dial(t testing.TB, url string) *client {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{Conn: c}
}

// request is a call as the Python SDK sends one.
func request(token string) []byte {
	return fmt.Appendf(nil, "POST "+call+" HTTP/1.1\r\nHost: sandbox.example.com\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"+
		"User-Agent: e2b-python-sdk/2.34.0\r\nE2b-Sandbox-Id: "+sandbox+"\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: %s\r\nAuthorization: Basic dXNlcjo=\r\n"+
		"Connect-Protocol-Version: 1\r\nKeepalive-Ping-Interval: 50\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		token, len(question), question)
}

// do sends a request n times, one after the other.
func (c *client) do(t testing.TB, request []byte, n int) {
	t.Helper()
	for range n {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		for got := 0; ; {
			some, err := c.Read(c.in[got:])
			if err != nil {
				t.Fatal(err)
			}
			got += some
			if got > len(answer) && string(c.in[got-len(answer):got]) == answer {
				if string(c.in[9:12]) != "200" {
					t.Fatalf("%s", c.in[:got])
				}
				break
			}
			if got == len(c.in) || string(c.in[9:12]) != "200" {
				t.Fatalf("%s", c.in[:got])
			}
		}
	}
}
