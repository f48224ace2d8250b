package browser

import (
	"bufio"
	"crypto/sha1" // RFC 6455 section 4.2.2 wants it
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// appPort is where the test's server listens in a sandbox.
const appPort = 8000

const (
	apiKey      = "e2b_" + "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"
	tokenSecret = "E2B_BROWSER_SECRET"
)

func TestMain(m *testing.M) {
	os.Setenv(tokenSecret, strings.Repeat("browser-", auth.MinTokenSecret))
	os.Exit(m.Run())
}

// scene is a gateway with a domain, and ROCK behind it.
type scene struct {
	*harness.Process
	cluster *rock.Cluster
	domain  string
}

// open starts a scene.
func open(t *testing.T, over harness.Transport, data dataPlane) *scene {
	t.Helper()
	registry := redistest.Start(t, redistest.Options{})
	records := goredis.NewClient(&goredis.Options{Addr: registry.Addr})
	t.Cleanup(func() { records.Close() })
	options := rock.Options{TempDir: t.TempDir(), Rocklet: true, Records: rock.RedisStrings{Client: records}}
	if data == fullEnvd {
		options.Envd = envd.In
	}
	cluster, err := rock.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Errorf("closing the double: %v", err)
		}
	})
	roles := ""
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		server, err := cluster.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		roles += fmt.Sprintf("%s %s\n", role, server.URL())
	}
	gateway := harness.Binary(t, fmt.Sprintf(`{
	e2b {
		keys static {
			key %s somebody
		}
		tokens {
			key one {env.%s}
		}
		domain %s:%s
		cluster test {
			%s
			allow 127.0.0.1/32
			registry redis {
				address %s
			}
		}
	}
}
:443 {
	log
	e2b
}
`, auth.DigestOf(apiKey), tokenSecret, harness.Domain, harness.Port, roles, registry.Addr), over)
	return &scene{gateway, cluster, harness.Domain + gateway.URL[strings.LastIndex(gateway.URL, ":"):]}
}

// dataPlane is who serves envd's calls: ROCK itself, which knows nothing of web pages, or the full envd, which answers them by itself.
type dataPlane string

const (
	rockItself dataPlane = "ROCK"
	fullEnvd   dataPlane = "envd"
)

// visit is what an SDK tells of a sandbox that it has made.
type visit struct {
	Sandbox         string `json:"sandbox"`
	Host            string `json:"host"` // of appPort
	Token           string `json:"token"`
	Download        string `json:"download"`
	DownloadExpires string `json:"downloadExpires"`
	DownloadExpired string `json:"downloadExpired"`
	Upload          string `json:"upload"`
	UploadExpires   string `json:"uploadExpires"`
}

func (s *scene) deployment() client.Deployment {
	return client.Deployment{Domain: s.domain, CAFile: s.CAFile, APIKey: apiKey, TemplateID: "python:3.11"}
}

// serveApp starts a server in a sandbox that lets some pages in and others not.
func (s *scene) serveApp(t *testing.T, id string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/shut", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "not for pages of others") })
	mux.HandleFunc("/open", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		_, _ = io.WriteString(w, "for "+r.Header.Get("Origin"))
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: an event\n\n")
	})
	mux.HandleFunc("/socket", echoOnSocket)
	l, err := s.cluster.Sandbox(id).Listen(appPort)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
}

// echoOnSocket repeats one short text frame of a WebSocket, RFC 6455 section 5.2, and says goodbye.
func echoOnSocket(w http.ResponseWriter, r *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	text, err := readFrame(rw.Reader)
	if err != nil {
		return
	}
	_, _ = conn.Write(append([]byte{0x81, byte(len(text))}, text...))
	_, _ = io.WriteString(conn, "\x88\x02\x03\xe8")
	_, _ = io.Copy(io.Discard, rw)
}

// readFrame reads a masked frame of less than 126 bytes.
func readFrame(r *bufio.Reader) ([]byte, error) {
	head := make([]byte, 6)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	text := make([]byte, head[1]&0x7f)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	for i := range text {
		text[i] ^= head[2+i%4]
	}
	return text, nil
}
