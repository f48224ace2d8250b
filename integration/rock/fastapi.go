package rock

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// route is one FastAPI route: a method and a pattern whose {name} segments match one non-empty segment.
type route struct {
	method, pattern string
	serve           func(w http.ResponseWriter, r *http.Request, param string)
}

// router answers as a FastAPI application does for everything it lacks.
type router []route

// match finds a pattern's parameter (patterns here have one at most).
func (rt route) match(path string) (param string, ok bool) {
	want, have := strings.Split(rt.pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return "", false
	}
	for i, seg := range want {
		if strings.HasPrefix(seg, "{") && have[i] != "" {
			param = have[i]
		} else if seg != have[i] {
			return "", false
		}
	}
	return param, true
}

// ServeHTTP implements http.Handler. Paths are matched decoded, as uvicorn hands them over.
func (rs router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler {
			panic(p)
		}
		a := Traceback()
		w.Header().Set("Content-Type", a.Header.Get("Content-Type"))
		w.WriteHeader(a.Status)
		_, _ = w.Write([]byte(a.Body))
	}()
	w.Header().Set("Server", "uvicorn")
	trace := r.Header.Get("Eagleeye-Traceid")
	if trace == "" {
		trace = newID()
	}
	w.Header().Set("Eagleeye-Traceid", trace)
	if origin := r.Header.Get("Origin"); origin != "" && cors(w, r, origin) {
		return
	}
	partial := ""
	for _, rt := range rs {
		param, ok := rt.match(r.URL.Path)
		if !ok {
			continue
		}
		if rt.method == r.Method {
			rt.serve(w, r, param)
			return
		}
		if partial == "" {
			partial = rt.method
		}
	}
	if partial != "" {
		w.Header().Set("Allow", partial) // Starlette names the first route's methods only
		detail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	}
	if rs.redirectSlash(w, r) {
		return
	}
	detail(w, http.StatusNotFound, "Not Found")
}

// redirectSlash: an unknown path that is known with or without its trailing slash is redirected with 307, to an absolute URL.
func (rs router) redirectSlash(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/" {
		return false
	}
	other, escaped := r.URL.Path+"/", r.URL.EscapedPath()+"/"
	if strings.HasSuffix(r.URL.Path, "/") {
		other, escaped = strings.TrimRight(r.URL.Path, "/"), strings.TrimRight(r.URL.EscapedPath(), "/")
	}
	for _, rt := range rs {
		if _, ok := rt.match(other); ok {
			target := "http://" + r.Host + escaped
			if r.URL.RawQuery != "" {
				target += "?" + r.URL.RawQuery
			}
			w.Header().Set("Location", target)
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}
	}
	return false
}

// cors is Starlette's middleware as ROCK configures it: every origin, with credentials. True when it answered a preflight.
func cors(w http.ResponseWriter, r *http.Request, origin string) bool {
	h := w.Header()
	h.Set("Access-Control-Allow-Credentials", "true")
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Vary", "Origin")
		h.Set("Access-Control-Allow-Methods", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
		h.Set("Access-Control-Max-Age", "600")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked)
		}
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Content-Length", "2")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("OK"))
		return true
	}
	h.Set("Access-Control-Allow-Origin", "*")
	if r.Header.Get("Cookie") != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Vary", "Origin")
	}
	return false
}

// encode is JSON as Starlette writes it: no HTML escapes, no newline.
func encode(v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b := encode(v)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// detail is FastAPI's own error.
func detail(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]string{"detail": text})
}

// e2bError is an E2B control-plane or /files error; code is the status.
func e2bError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"code": status, "message": message})
}
