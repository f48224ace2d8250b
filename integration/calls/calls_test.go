package calls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// caddyfile is a gateway in front of one server that plays both roles and knows
// the sandbox "sbx". timeouts are Caddy's.
func caddyfile(upstream, timeouts string) string {
	return fmt.Sprintf(`{
	servers {
		timeouts {
			%s
		}
	}
	e2b {
		keys off
		registry static {
			sandbox sbx {
				state running
			}
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
`, timeouts, upstream, upstream)
}

const stream = "application/connect+json"

func message(text string) []byte { return envelope.Append(nil, 0, []byte(text)) }

var endStream = envelope.Append(nil, envelope.FlagEndStream, []byte("{}"))

func post(ctx context.Context, url, path, contentType string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("E2b-Sandbox-Id", "sbx")
	r.Header.Set("E2b-Sandbox-Port", "49983")
	return r, nil
}

// net/http closes a request body when the answer begins, and a proxy that still
// reads it then loses the answer (golang/go#40747): without a remedy it hits
// one call in about 700.
func TestNoStreamingAnswerIsCutByItsOwnRequestBody(t *testing.T) {
	const calls, clients = 20000, 16
	answer := append(message(`{"event":{"start":{"pid":7}}}`), endStream...)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", stream)
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		_ = control.Flush() // as early as can be
		io.Copy(io.Discard, r.Body)
		w.Write(answer)
	}))
	defer upstream.Close()
	gateway := harness.Binary(t, caddyfile(upstream.URL, "read_body_idle -1s"))
	client := gateway.Client()
	small, large := message(`{"process":{"cmd":"/bin/bash"}}`), message(string(bytes.Repeat([]byte("x"), 80<<10)))
	var next, failed atomic.Int64
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for n := next.Add(1); n <= calls; n = next.Add(1) {
				var body io.Reader = bytes.NewReader(small)
				switch {
				case n%20 == 0:
					body = bytes.NewReader(large)
				case n%5 == 0:
					body = io.MultiReader(body) // chunked
				}
				if err := call(t.Context(), client, gateway.URL, body, answer); err != nil && failed.Add(1) <= 5 {
					t.Errorf("call %d: %v", n, err)
				}
			}
		})
	}
	group.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d calls failed", n, calls)
	}
}

func call(ctx context.Context, client *http.Client, url string, body io.Reader, want []byte) error {
	r, err := post(ctx, url, "/process.Process/Start", stream, body)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("another answer")
	}
	if err != nil {
		return fmt.Errorf("%d %q: %w", resp.StatusCode, got, err)
	}
	return nil
}

// Caddy's own limits on idle bodies, 60 s unless set, would end a call whose
// client or sandbox has nothing to say. They are set to a fraction of a second
// here and the silence lasts many times as long, as an hour does with theirs.
func TestACallMayBeSilentInEitherDirection(t *testing.T) {
	const limit = 200 * time.Millisecond
	for _, transport := range []harness.Transport{harness.Cleartext, harness.TLS1, harness.TLS2} {
		t.Run(fmt.Sprint(transport), func(t *testing.T) {
			upstream := httptest.NewServer(http.HandlerFunc(echo))
			t.Cleanup(upstream.Close)
			gateway := inprocess.Start(t, caddyfile(upstream.URL, fmt.Sprintf("read_body_idle %v\nwrite_idle %v", limit, limit)), transport)
			t.Run("with", func(t *testing.T) {
				for _, contentType := range []string{stream, "application/connect+proto", "application/grpc+proto"} {
					t.Run(contentType, func(t *testing.T) {
						t.Parallel()
						conversation(t, gateway, contentType, 5*limit)
					})
				}
			})
		})
	}
}

// conversation says something three times and hears it again, with a silence
// after each.
func conversation(t *testing.T, gateway *harness.Gateway, contentType string, silence time.Duration) {
	in, out := io.Pipe()
	r, err := post(t.Context(), gateway.URL, "/process.Process/StreamInput", contentType, in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Te", "trailers")
	answered := make(chan *http.Response, 1)
	go func() {
		resp, err := gateway.Client().Do(r)
		if err != nil {
			t.Error(err)
		}
		answered <- resp
	}()
	var heard io.Reader
	for i := range 3 {
		if _, err := out.Write(message(fmt.Sprint("word ", i))); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			resp := <-answered
			if resp == nil {
				return
			}
			defer resp.Body.Close()
			heard = resp.Body
		}
		want := message(fmt.Sprint("echo word ", i))
		got := make([]byte, len(want))
		if _, err := io.ReadFull(heard, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q, %v", got, err)
		}
		<-time.After(silence)
	}
	out.Close()
	rest, err := io.ReadAll(heard)
	if err != nil || contentType == stream && !bytes.Equal(rest, endStream) {
		t.Errorf("the rest is %q, %v", rest, err)
	}
}

// echo says each message again, with "echo " before it.
func echo(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	grpc := r.Header.Get("Content-Type") == "application/grpc+proto"
	_ = control.Flush()
	for prefix := make([]byte, envelope.PrefixSize); ; {
		if _, err := io.ReadFull(r.Body, prefix); err != nil {
			break
		}
		text := make([]byte, prefix[4])
		if _, err := io.ReadFull(r.Body, text); err != nil {
			return
		}
		w.Write(message("echo " + string(text)))
		_ = control.Flush()
	}
	if grpc {
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		return
	}
	w.Write(endStream)
}
