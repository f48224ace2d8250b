package sdk

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// startDeployment serves a pretend ROCK with the least that makes every SDK work on it.
//
// The gateway proper takes its place; what it does beyond this is tested elsewhere.
func startDeployment(t testing.TB, over transport, as profile) Deployment {
	t.Helper()
	options := rock.Options{TempDir: t.TempDir()}
	if as == onEnvd {
		options.Envd = func(s *rock.Sandbox) http.Handler {
			box, err := s.Box()
			if err != nil {
				return http.NotFoundHandler()
			}
			h, err := envd.New(envd.Options{Box: box})
			if err != nil {
				return http.NotFoundHandler()
			}
			return h
		}
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
	s := &standIn{cluster: cluster, protocols: map[string]int{}}
	for role, to := range map[rock.Role]**httputil.ReverseProxy{rock.Admin: &s.admin, rock.Proxy: &s.proxy} {
		server, err := cluster.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		target, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		*to = &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			FlushInterval: -1,
			Transport:     &http.Transport{DisableCompression: true},
		}
	}

	front := httptest.NewUnstartedServer(s)
	d := Deployment{APIKey: "e2b_" + strings.Repeat("0a", 20), TemplateID: "python:3.11", Protocols: s.counted}
	if over == cleartextH1 {
		front.Start()
	} else {
		leaf, caFile := loopbackCertificate(t)
		d.CAFile = caFile
		front.EnableHTTP2 = over == tlsH2
		front.TLS = &tls.Config{Certificates: []tls.Certificate{leaf}}
		if over == tlsH1 {
			front.TLS.NextProtos = []string{"http/1.1"}
		}
		front.StartTLS()
	}
	t.Cleanup(front.Close)
	d.APIURL, d.SandboxURL = front.URL, front.URL
	return d
}

// standIn splits the planes by path and translates what ROCK does not understand or answers misleadingly.
type standIn struct {
	cluster      *rock.Cluster
	admin, proxy *httputil.ReverseProxy

	mu        sync.Mutex
	protocols map[string]int
}

func (s *standIn) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.protocols)
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.protocols[r.Proto]++
	s.mu.Unlock()

	path := r.URL.Path
	switch {
	case r.Method == http.MethodPost && (path == "/sandboxes" || path == "/v2/sandboxes"):
		s.create(w, r)
	case path == "/v2/sandboxes":
		s.proxy.ServeHTTP(w, r)
	case strings.HasPrefix(path, "/sandboxes/"):
		s.admin.ServeHTTP(w, r)
	default:
		if box := s.cluster.Sandbox(r.Header.Get("E2b-Sandbox-Id")); box == nil || box.State() != rock.Running {
			gone(w, r)
			return
		}
		if err := readAhead(r); err != nil {
			answer(w, http.StatusBadRequest, map[string]any{"code": http.StatusBadRequest, "message": err.Error()})
			return
		}
		s.proxy.ServeHTTP(w, r)
	}
}

// readAhead takes a small body off the connection before anything is answered. Without it about one stream in a thousand
// over HTTP/1.1 is cut at its start: the first flush races with the proxy's last read of the body, and Go's server
// closes a connection whose body it finds unread.
func readAhead(r *http.Request) error {
	const small = 1 << 20
	if r.ContentLength <= 0 || r.ContentLength > small {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err
}

// create turns either create call into ROCK's one, and fills in what ROCK requires and newer SDKs leave out.
func (s *standIn) create(w http.ResponseWriter, r *http.Request) {
	body := map[string]any{"metadata": map[string]string{}, "timeout": 300}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"code": http.StatusBadRequest, "message": err.Error()})
		return
	}
	text, err := json.Marshal(body)
	if err != nil {
		answer(w, http.StatusInternalServerError, map[string]any{"code": http.StatusInternalServerError, "message": err.Error()})
		return
	}
	r.URL.Path = "/sandboxes"
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(text)), int64(len(text)), nil
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	s.admin.ServeHTTP(w, r)
}

// gone answers a data-plane request for a sandbox that is not there: in the protocol on a stream, 502 elsewhere.
func gone(w http.ResponseWriter, r *http.Request) {
	const message = "The sandbox was not found"
	contentType := r.Header.Get("Content-Type")
	switch {
	case strings.HasPrefix(contentType, "application/connect+json"):
		end, _ := json.Marshal(map[string]any{"error": map[string]string{"code": "unavailable", "message": message}})
		envelope := binary.BigEndian.AppendUint32([]byte{0x02}, uint32(len(end)))
		w.Header().Set("Content-Type", contentType)
		w.Write(append(envelope, end...))
	case strings.Contains(r.URL.Path, "."):
		answer(w, http.StatusBadGateway, map[string]any{"code": "unavailable", "message": message})
	default:
		answer(w, http.StatusBadGateway, map[string]any{"code": http.StatusBadGateway, "message": message})
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}
