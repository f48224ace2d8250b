package module_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// Caddy ends the body of a client that is silent. Over HTTP/1.1 the request's
// context ends with it, although the client is there.
func TestReadBodyIdleIsToldAndNotBlamedOnTheUpstream(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		if strings.HasSuffix(r.URL.Path, "/Start") {
			w.Header().Set("Content-Type", "application/connect+json")
			_, _ = w.Write(startEvent)
			w.(http.Flusher).Flush()
		}
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	defer upstream.Close()
	said := streamError("invalid_argument", "The request body could not be read to its end")
	for _, transport := range []harness.Transport{harness.TLS1, harness.TLS2} {
		t.Run(string(transport), func(t *testing.T) {
			g := inprocess.Start(t, `{
	servers {
		timeouts {
			read_body_idle 1s
		}
	}
}
:80 {
	reverse_proxy `+strings.TrimPrefix(upstream.URL, "http://")+` {
		transport e2b
	}
}
`, transport)
			for call, want := range map[string]string{"Start": string(startEvent) + said, "StreamInput": said} {
				body, client := io.Pipe()
				defer client.Close()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/process.Process/"+call, body)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/connect+json")
				go client.Write([]byte("\x00\x00\x00\x00\x02{}"))
				resp, err := g.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(got) != want || err != nil {
					t.Errorf("%s: %d %q, %v", call, resp.StatusCode, got, err)
				}
			}
		})
	}
}
