package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// openDirect starts a gateway that dials two sandboxes itself, app and alive, on envd's
// port and on 49999. serve answers for both.
func openDirect(t *testing.T, transport harness.Transport, site string, serve answerer) *harness.Gateway {
	t.Helper()
	at := newCluster(t).listen(func(c *net.TCPConn) { converse(c, serve) })
	port := at[strings.LastIndexByte(at, ':')+1:]
	return inprocess.Start(t, fmt.Sprintf(`{
	e2b {
		keys off
		registry static {
			sandbox app {
				host 127.0.0.1
				port 49983 %[2]s
				port 49999 %[2]s
			}
			sandbox alive {
				host 127.0.0.1
				port 49983 %[2]s
			}
		}
		cluster test {
			admin %[1]s
			proxy %[1]s
			mode direct
			allow 127.0.0.0/8
		}
	}
}
:80 {
	%[3]s
	e2b
}
`, at, port, site), transport)
}

// toApp is a call of port 49999.
func toApp(method, path string, header ...[2]string) call {
	target := [][2]string{{"E2b-Sandbox-Id", "app"}, {"E2b-Sandbox-Port", "49999"}}
	return call{method: method, path: path, header: append(target, header...)}
}

// head is how an answer of chunks begins. lines are more headers.
func head(contentType string, lines ...string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nTransfer-Encoding: chunked\r\n" + strings.Join(lines, "") + "\r\n"
}

// Field report A02: what an app streams has no room for a failure that the gateway could
// use, whatever it is. Not even an envelope: who reads it is not known.
func TestACutOfWhatAnAppStreamsIsACut(t *testing.T) {
	lines := `{"type":"stdout","text":"1\n"}` + "\n" + `{"type":"std`
	bodies := map[string]string{
		"application/json": lines, "application/x-ndjson": lines, "text/event-stream": "data: 1\n\ndata",
		"application/octet-stream":   "\x00\x00\x00\x00\x09half",
		"application/connect+json":   frame(0, startEvent) + "\x00\x00",
		"application/grpc-web+proto": frame(0, startEventProto) + "\x00",
	}
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			g := openDirect(t, transport, "", func(c *net.TCPConn, r *http.Request) bool {
				answerType := r.Header.Get("X-Answer")
				_, _ = fmt.Fprintf(c, "%s%x\r\n%s\r\n", head(answerType), len(bodies[answerType]), bodies[answerType])
				_ = c.SetLinger(0)
				return false
			})
			send := clientOf(t, &g.Endpoint)
			for answerType, body := range bodies {
				got, err := send(toApp("POST", "/execute", [2]string{"X-Answer", answerType}, [2]string{"Content-Type", answerType}))
				if err != nil {
					t.Errorf("%s: %v", answerType, err)
					continue
				}
				want := &seen{status: 200, body: body, end: cut, header: http.Header{"Content-Type": {answerType}}}
				want.compare(t, answerType, got)
			}
		})
	}
}

// Field report A12: half a file is never a whole one, and a cut is no crash of the gateway.
func TestHalfABigFileIsNoFile(t *testing.T) {
	const half = 4 << 20
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			g := openDirect(t, transport, "", func(c *net.TCPConn, _ *http.Request) bool {
				_, _ = io.WriteString(c, head("application/octet-stream"))
				chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("x", 64<<10))
				for range half / (64 << 10) {
					_, _ = io.WriteString(c, chunk)
				}
				_ = c.SetLinger(0)
				return false
			})
			file := toApp("GET", "/files?path=/big")
			file.header[1][1] = "49983"
			got, err := clientOf(t, &g.Endpoint)(file)
			part := len(got.body) > 0 && len(got.body) <= half && strings.Trim(got.body, "x") == ""
			if err != nil || got.status != 200 || got.end != cut || !part {
				t.Errorf("%d, %d bytes, %s, %v", got.status, len(got.body), got.end, err)
			}
			if logs := g.Logs(); strings.Contains(logs, "panic") {
				t.Errorf("the log has a crash: %s", logs)
			}
		})
	}
}

// Field report A14: who leaves takes its stream in the sandbox along.
func TestAWatchThatIsLeftEndsInTheSandbox(t *testing.T) {
	const atOnce = 25
	for transport, watches := range map[harness.Transport]int{
		harness.Cleartext: 500, harness.TLS2: 500, harness.TLS1: 100, // where each costs a handshake
	} {
		t.Run(string(transport), func(t *testing.T) {
			var open atomic.Int32
			g := openDirect(t, transport, "", func(c *net.TCPConn, _ *http.Request) bool {
				open.Add(1)
				defer open.Add(-1)
				// A stream that is left open would keep the gateway from stopping.
				defer context.AfterFunc(t.Context(), func() { c.Close() })()
				event := frame(0, `{"start":{}}`)
				_, _ = fmt.Fprintf(c, "%s%x\r\n%s\r\n", head("application/connect+json"), len(event), event)
				_, _ = io.Copy(io.Discard, c)
				return false
			})
			client := g.Client()
			for range watches / atOnce {
				ctx, leave := context.WithCancel(t.Context())
				for range atOnce {
					body := strings.NewReader(frame(0, `{"path":"/"}`))
					r, err := http.NewRequestWithContext(ctx, "POST", g.URL+"/filesystem.Filesystem/WatchDir", body)
					if err != nil {
						t.Fatal(err)
					}
					r.Header = http.Header{
						"Content-Type": {"application/connect+json"}, "E2b-Sandbox-Id": {"app"}, "E2b-Sandbox-Port": {"49983"},
					}
					resp, err := client.Do(r)
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					if _, err := io.ReadFull(resp.Body, make([]byte, len(frame(0, `{"start":{}}`)))); err != nil {
						t.Fatal(err)
					}
				}
				if open.Load() == 0 {
					t.Fatal("nothing is open")
				}
				leave()
			}
			deadline := time.Now().Add(patience)
			for open.Load() > 0 {
				if time.Now().After(deadline) {
					t.Fatalf("%d of %d are open still", open.Load(), watches)
				}
				<-time.After(5 * time.Millisecond)
			}
		})
	}
}
