package rock

import (
	"errors"
	"net/http"
	"net/url"
	"sort"
	"strings"
)

// Proxy is the proxy role: the E2B list and the data plane.
func (c *Cluster) Proxy() http.Handler {
	rs := router{
		{"GET", "/", hello},
		{"GET", "/v2/sandboxes", c.listSandboxes},
		{"GET", native + "/get_status", c.getStatus},
		{"GET", native + "/sandboxes", c.listNative},
		{"POST", native + "/sandboxes/batch", c.batch},
	}
	if c.opt.Envd != nil {
		return c.withEnvd(rs)
	}
	return append(rs, router{
		{"GET", "/health", c.health},
		{"POST", "/process.Process/Start", c.processStart},
		{"POST", "/filesystem.Filesystem/MakeDir", unary(c, makeDir)},
		{"POST", "/filesystem.Filesystem/ListDir", unary(c, listDir)},
		{"POST", "/filesystem.Filesystem/Stat", unary(c, stat)},
		{"GET", "/files", c.readFile},
		{"POST", "/files", c.writeFiles},
	}...)
}

// sandboxHeader names the sandbox of a data-plane request.
const sandboxHeader = "E2b-Sandbox-Id"

// notRunning is what ROCK says about paused, killed and unknown sandboxes alike.
const notRunning = "sandbox is not running"

var errNoHeader = errors.New("E2b-Sandbox-Id header is required")

// running finds the request's sandbox: errNoHeader, or ErrNotRunning for every state but running.
func (c *Cluster) running(r *http.Request) (*Sandbox, error) {
	id := r.Header.Get(sandboxHeader)
	if id == "" {
		return nil, errNoHeader
	}
	s := c.Sandbox(id)
	if s == nil || s.State() != Running {
		return nil, ErrNotRunning
	}
	return s, nil
}

// health answers 502 with an empty body for every sandbox that is not running.
func (c *Cluster) health(w http.ResponseWriter, r *http.Request, _ string) {
	switch _, err := c.running(r); {
	case errors.Is(err, errNoHeader):
		e2bError(w, http.StatusBadRequest, err.Error())
	case err != nil:
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusBadGateway)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// withEnvd sends data-plane requests to the sandbox's own envd.
func (c *Cluster) withEnvd(rs router) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service, _, rpc := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		rpc = rpc && strings.Contains(service, ".")
		if !rpc && r.URL.Path != "/health" && r.URL.Path != "/files" {
			rs.ServeHTTP(w, r)
			return
		}
		s, err := c.running(r)
		switch {
		case err == nil:
			life := s.container()
			if life.over() {
				c.lost(w, r)
				return
			}
			if r.URL.Path != "/health" {
				s.touch()
			}
			life.handler().ServeHTTP(w, r)
		case r.URL.Path == "/health":
			c.health(w, r, "")
		case strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+json"):
			streamError(w, connectCodeOf(err), err)
		case rpc:
			unaryError(w, connectCodeOf(err), messageOf(err))
		case errors.Is(err, errNoHeader):
			e2bError(w, http.StatusBadRequest, err.Error())
		default:
			e2bError(w, http.StatusNotFound, notRunning)
		}
	})
}

// lost answers for a container that the records still call running.
func (c *Cluster) lost(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/health":
		w.WriteHeader(http.StatusNoContent) // ROCK looks at the record only
	case r.URL.Path == "/files":
		e2bError(w, http.StatusBadGateway, unreachableFiles)
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+json"):
		streamError(w, codeUnavailable, errors.New(unreachableCommands))
	default:
		unaryError(w, codeUnavailable, unreachableFiles)
	}
}

// listSandboxes needs metadata, shows running sandboxes only, and never pages. One record that does not map fails the whole list.
func (c *Cluster) listSandboxes(w http.ResponseWriter, r *http.Request, _ string) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		e2bError(w, http.StatusBadRequest, "invalid query")
		return
	}
	filter, err := parseFilter(query["metadata"])
	if err != nil {
		e2bError(w, http.StatusBadRequest, err.Error())
		return
	}
	items := []info{}
	for _, s := range c.all() {
		if s.State() != Running || !containsAll(s.Metadata, filter) {
			continue
		}
		d, err := s.detail()
		if errors.Is(err, errNoE2BState) {
			continue // stopped since
		}
		if err != nil {
			e2bError(w, http.StatusInternalServerError, err.Error())
			return
		}
		items = append(items, d)
	}
	sort.Slice(items, func(i, j int) bool {
		a, b := items[i], items[j]
		return a.StartedAt < b.StartedAt || a.StartedAt == b.StartedAt && a.SandboxID < b.SandboxID
	})
	writeJSON(w, http.StatusOK, items)
}

func containsAll(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// parseFilter reads the metadata parameter, whose value the query decoding has already reduced to one of two forms: the SDKs' form
// encoding of percent-encoded keys and values, or key:value,key2:value2.
func parseFilter(values []string) (map[string]string, error) {
	if len(values) == 0 || values[len(values)-1] == "" {
		return nil, errors.New("metadata filter is required")
	}
	raw := values[len(values)-1]
	pairSep, keySep, form := ",", ":", false
	if strings.Contains(raw, "=") {
		pairSep, keySep, form = "&", "=", true
	}
	filter := make(map[string]string)
	for _, pair := range strings.Split(raw, pairSep) {
		k, v, ok := strings.Cut(pair, keySep)
		if form {
			k, v = unquote(unquotePlus(k)), unquote(unquotePlus(v))
		} else {
			k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		}
		if !ok || k == "" || v == "" {
			return nil, errors.New("metadata filter must consist of non-empty key/value pairs")
		}
		if _, twice := filter[k]; twice {
			return nil, errors.New("metadata filter names a key twice")
		}
		filter[k] = v
	}
	return filter, nil
}

func unquotePlus(s string) string { return unquote(strings.ReplaceAll(s, "+", " ")) }

// unquote is Python's: what is not a percent escape stays as it is.
func unquote(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && hexDigit(s[i+1]) >= 0 && hexDigit(s[i+2]) >= 0 {
			out = append(out, byte(hexDigit(s[i+1])<<4|hexDigit(s[i+2])))
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
