package handlers

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// proxied sends a streaming call with a body, and names and values of headers,
// through a StreamTransport.
func proxied(t *testing.T, next http.RoundTripper, url string, body io.Reader, headers ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+start, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", stream)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	sent := r.Body
	transport := StreamTransport{Next: next, Retryable: func(error) bool { return false }}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if r.Body != sent {
		t.Error("the request was changed")
	}
	return resp
}

// collect reads an answer to its end.
func collect(resp *http.Response) reply {
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

// sandboxAt is a sandbox that does as told, and what reaches it.
func sandboxAt(t *testing.T, do http.HandlerFunc) (next *http.Transport, url string) {
	t.Helper()
	s := httptest.NewServer(do)
	next = new(http.Transport)
	t.Cleanup(func() {
		next.CloseIdleConnections()
		s.Close()
	})
	return next, s.URL
}

// A server that waits for its client no longer ends the body with a timeout,
// which is not the sandbox's.
func TestARequestBodyThatFailsIsNotBlamedOnTheSandbox(t *testing.T) {
	for name, tc := range map[string]struct {
		err           error
		code, message string
	}{
		"idle":  {os.ErrDeadlineExceeded, "invalid_argument", "The request body could not be read to its end"},
		"cut":   {io.ErrUnexpectedEOF, "invalid_argument", "The request body could not be read to its end"},
		"large": {&http.MaxBytesError{Limit: 1}, "resource_exhausted", "The request body is too large"},
	} {
		t.Run(name+", under way", func(t *testing.T) {
			next, url := sandboxAt(t, func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).EnableFullDuplex()
				w.Header().Set("Content-Type", stream)
				io.WriteString(w, frame(0, "{}"))
				w.(http.Flusher).Flush()
				io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler)
			})
			body, client := io.Pipe()
			resp := proxied(t, next, url, body)
			if _, err := io.ReadFull(resp.Body, make([]byte, len(frame(0, "{}")))); err != nil {
				t.Fatal(err)
			}
			client.CloseWithError(tc.err)
			if code, message := collect(resp).endError(t); code != tc.code || message != tc.message {
				t.Errorf("%s: %s", code, message)
			}
		})
	}
	for name, err := range map[string]error{"idle": os.ErrDeadlineExceeded, "cut": io.ErrUnexpectedEOF} {
		t.Run(name+", no answer yet", func(t *testing.T) {
			next, url := sandboxAt(t, func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler)
			})
			body, client := io.Pipe()
			go func() {
				io.WriteString(client, frame(0, "{}"))
				client.CloseWithError(err)
			}()
			if code, message := collect(proxied(t, next, url, body)).endError(t); code != "invalid_argument" || !strings.Contains(message, "request body") {
				t.Errorf("%s: %s", code, message)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// lost is a sandbox whose connection is reset.
var lost = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// What is left of a body is closed when the sandbox is lost, or by a server that
// writes its answer (golang/go#40747).
func TestABodyThatIsClosedIsNotBlamedOnTheClient(t *testing.T) {
	for name, next := range map[string]roundTrip{
		"by the transport": func(r *http.Request) (*http.Response, error) {
			r.Body.Close()
			io.Copy(io.Discard, r.Body)
			return nil, lost
		},
		"by the server": func(r *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, r.Body)
			return nil, lost
		},
	} {
		t.Run(name, func(t *testing.T) {
			body, client := io.Pipe()
			client.CloseWithError(http.ErrBodyReadAfterClose)
			if code, message := collect(proxied(t, next, "http://sandbox", body)).endError(t); code != "aborted" || !strings.HasPrefix(message, "The connection to sandbox") {
				t.Errorf("%s: %s", code, message)
			}
		})
	}
}

// A context that ends with a broken body belongs to a client that has left,
// unless the body has timed out: net/http ends the context then, too.
func TestAClientThatIsSilentHasNotLeft(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		closed bool // by the transport, while it reads
		told   bool
	}{
		{name: "silent", err: os.ErrDeadlineExceeded, told: true},
		{name: "silent, the body closed", err: os.ErrDeadlineExceeded, closed: true, told: true},
		{name: "left", err: io.ErrUnexpectedEOF},
		{name: "left, the body closed", err: io.ErrUnexpectedEOF, closed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			body, client := io.Pipe()
			// A server's body goes on with a read that has begun when it is closed.
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandbox"+start, io.NopCloser(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", stream)
			transport := StreamTransport{Retryable: func(error) bool { return false }, Next: roundTrip(func(r *http.Request) (*http.Response, error) {
				// The end of the context is seen before that of the body.
				cancel()
				if tc.closed {
					r.Body.Close()
				}
				time.AfterFunc(doneGrace/10, func() { client.CloseWithError(tc.err) })
				go io.Copy(io.Discard, r.Body)
				return nil, r.Context().Err()
			})}
			resp, err := transport.RoundTrip(r)
			if told := err == nil; told != tc.told {
				t.Fatal(err)
			}
			if tc.told {
				if code, _ := collect(resp).endError(t); code != "invalid_argument" {
					t.Error(code)
				}
			}
		})
	}
}

// Before net/http answers it closes the request's body, for which it reads what is
// left, unless the transport reads at that moment. It is its read that times out
// then, and what the transport hears is that the body is closed.
func TestASilentClientHasNotLeftWhoeverReads(t *testing.T) {
	event := frame(0, `{"event":{"start":{"pid":7}}}`)
	transport := StreamTransport{Retryable: func(error) bool { return false }, Next: roundTrip(func(r *http.Request) (*http.Response, error) {
		if _, err := io.ReadFull(r.Body, make([]byte, len(frame(0, "{}")))); err != nil {
			return nil, err
		}
		answer, sandbox := io.Pipe()
		go func() {
			io.WriteString(sandbox, event)
			<-r.Context().Done()
			r.Body.Close()
			if _, err := r.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
				t.Errorf("the read fails with %v", err)
			}
			sandbox.CloseWithError(r.Context().Err())
		}()
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {stream}}, Body: answer}, nil
	})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", stream)
		rc.Flush()
		io.Copy(w, resp.Body)
	}))
	defer server.Close()
	body, client := io.Pipe()
	defer client.Close()
	go io.WriteString(client, frame(0, "{}"))
	resp, err := http.Post(server.URL+start, stream, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := collect(resp)
	if code, message := got.endError(t); !strings.HasPrefix(got.body, event) || code != "invalid_argument" || !strings.Contains(message, "request body") {
		t.Errorf("%q: %s: %s", got.body, code, message)
	}
}

func TestASilentSandboxIsBlamedForItsTimeout(t *testing.T) {
	over := make(chan struct{})
	next, url := sandboxAt(t, func(http.ResponseWriter, *http.Request) { <-over })
	defer close(over)
	next.ResponseHeaderTimeout = 50 * time.Millisecond
	resp := proxied(t, next, url, strings.NewReader(frame(0, "{}")))
	if code, message := collect(resp).endError(t); code != "aborted" || !strings.Contains(message, "sent nothing for too long") {
		t.Errorf("%s: %s", code, message)
	}
}

// wantLeft waits until the connection of a sandbox was given up.
func wantLeft(t *testing.T, left <-chan struct{}) {
	t.Helper()
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Error("the sandbox's connection was kept")
	}
}

func TestAProxiedResultIsNotHeldBackBySilence(t *testing.T) {
	left := make(chan struct{})
	event := frame(0, `{"event":{"end":{"exited":true,"status":"exit status 0"}}}`)
	next, url := sandboxAt(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", stream)
		io.WriteString(w, event)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	})
	if r := collect(proxied(t, next, url, strings.NewReader(frame(0, "{}")))); r.body != event+frame(2, "{}") || r.err != nil {
		t.Errorf("%q, %v", r.body, r.err)
	}
	wantLeft(t, left)
}

// Contract checklist 40.
func TestTheClientsDeadlineEndsAProxiedCall(t *testing.T) {
	for name, head := range map[string]string{"before the answer": "", "during the answer": frame(0, "{}")} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{})
			next, url := sandboxAt(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", stream)
				if head != "" {
					io.WriteString(w, head)
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
				close(left)
			})
			begun := time.Now()
			r := collect(proxied(t, next, url, strings.NewReader(frame(0, "{}")), "Connect-Timeout-Ms", "100"))
			if code, _ := r.endError(t); code != "deadline_exceeded" || !strings.HasPrefix(r.body, head) {
				t.Errorf("%q", r.body)
			}
			if took := time.Since(begun); took < 100*time.Millisecond+deadlineGrace {
				t.Errorf("after %v already", took)
			}
			wantLeft(t, left)
		})
	}
}

// Nor is a proxy to try another address when the time is over.
func TestADeadlineIsNoReasonToTryElsewhere(t *testing.T) {
	next := roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://sandbox"+start, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {stream}, "Connect-Timeout-Ms": {"1"}}
	transport := StreamTransport{Next: next, Retryable: func(error) bool { return true }}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := collect(resp).endError(t); code != "deadline_exceeded" {
		t.Error(code)
	}
}

func TestAClientThatLeavesIsNotToldOfItsDeadline(t *testing.T) {
	left := make(chan struct{})
	next, url := sandboxAt(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", stream)
		io.WriteString(w, frame(0, "{}"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	})
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+start, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {stream}, "Connect-Timeout-Ms": {"10000"}}
	transport := StreamTransport{Next: next, Retryable: func(error) bool { return false }}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	leave()
	if got := collect(resp); !errors.Is(got.err, context.Canceled) || got.body != frame(0, "{}") {
		t.Errorf("%q, %v", got.body, got.err)
	}
	wantLeft(t, left)
}
