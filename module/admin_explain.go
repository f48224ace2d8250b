package module

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/routing"
)

// ExplainRequest is the body of POST /e2b/explain: a request as its client would send
// it. Every field may be left out. With nothing but SandboxID it is the call by which
// the SDKs list the processes of a sandbox, made by its owner.
type ExplainRequest struct {
	// Method. Default: GET, and POST for the default path.
	Method string `json:"method,omitempty"`
	// Host is that of the URL, with the port if it has one. Default: localhost, where
	// the headers decide.
	Host string `json:"host,omitempty"`
	// Path is the target: the path with its query, encoded as it is sent. Default:
	// /process.Process/List.
	Path string `json:"path,omitempty"`
	// Headers are by name, each with its values. A credential in them is used and never
	// shown or logged.
	Headers map[string][]string `json:"headers,omitempty"`
	// Body is the whole body. Default: none.
	Body string `json:"body,omitempty"`
	// SandboxID and SandboxPort are the routing headers, for short. Default of the port:
	// envd's, 49983.
	SandboxID   string `json:"sandbox_id,omitempty"`
	SandboxPort uint16 `json:"sandbox_port,omitempty"`
	// Plane is that of the site that gets the request: "control", "data" or "both".
	// Default: both.
	Plane string `json:"plane,omitempty"`
	// HTTP is the version: "1.1" or "2". Default: 1.1.
	HTTP string `json:"http,omitempty"`
	// As is a subject whose credential the request is to have been sent with; none may
	// be in Headers then. Its key's own scopes and cluster are not known.
	As string `json:"as,omitempty"`
	// AsOwner is As with the owner of the sandbox. Default: true if there is nothing but
	// a sandbox.
	AsOwner bool `json:"as_owner,omitempty"`
}

const (
	// maxExplain bounds the body of POST /e2b/explain, in bytes.
	maxExplain = 4 << 20
	// explainBound is how long an explanation may take: a lookup with its queue, and the
	// store of keys.
	explainBound = 15 * time.Second
	// simplestCall has no effect, and every SDK makes it.
	simplestCall = "/process.Process/List"
)

func (a *Admin) explain(w http.ResponseWriter, r *http.Request) error {
	question, err := readExplain(http.MaxBytesReader(w, r.Body, maxExplain))
	if err != nil {
		return badRequest(err)
	}
	live, release, err := a.live()
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(r.Context(), explainBound)
	defer cancel()
	explanation, err := live.gateway.Explain(ctx, question)
	switch {
	case errors.Is(err, handlers.ErrTwoCredentials):
		return badRequest(err)
	case err != nil:
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: fmt.Errorf("finding out as whom to ask: %w", err)}
	}
	return answerJSON(w, http.StatusOK, explanation)
}

// readExplain reads the description of a request. Its errors repeat nothing of it that
// could be a secret.
func readExplain(body io.Reader) (handlers.Question, error) {
	var asked ExplainRequest
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return handlers.Question{}, unreadable(err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return handlers.Question{}, errors.New("the body must be one JSON object")
	}
	asked.fill()
	return asked.question()
}

// unreadable is what is said of a description that cannot be decoded. encoding/json
// repeats names and numbers of it, and one may be a credential in the wrong place.
func unreadable(err error) error {
	var mistyped *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return fmt.Errorf("the body is longer than %d bytes", tooLong.Limit)
	case errors.As(err, &mistyped):
		return fmt.Errorf("the body must be a JSON object as docs/admin.md has it: at byte %d there must be a %s", mistyped.Offset, mistyped.Type)
	case errors.As(err, &syntax), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body must be a JSON object: it is no JSON")
	default:
		return errors.New("the body must be a JSON object as docs/admin.md has it: there is a field that it does not have")
	}
}

// fill sets what is left out.
func (e *ExplainRequest) fill() {
	if e.Method == "" && e.Path == "" && e.Host == "" && len(e.Headers) == 0 && e.As == "" {
		e.AsOwner = true
	}
	if e.Path == "" {
		e.Path = simplestCall
		if e.Method == "" {
			e.Method = http.MethodPost
		}
	}
	if e.Method == "" {
		e.Method = http.MethodGet
	}
	if e.Host == "" {
		e.Host = "localhost"
	}
}

// question makes a request of the description, as a server would have read it.
func (e *ExplainRequest) question() (q handlers.Question, _ error) {
	target, err := url.ParseRequestURI(e.Path)
	if err != nil {
		return q, errors.New("path: it is no target of a request, such as /files?path=%2Ftmp")
	}
	switch e.Plane {
	case "", "both":
		q.Planes = handlers.Both
	case "control":
		q.Planes = handlers.Control
	case "data":
		q.Planes = handlers.Data
	default:
		return q, errors.New("plane: it must be control, data or both")
	}
	r := &http.Request{
		Method: e.Method, URL: target, RequestURI: e.Path, Host: e.Host, Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody, ContentLength: int64(len(e.Body)),
	}
	switch e.HTTP {
	case "", "1.1":
	case "2":
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	default:
		return q, errors.New("http: it must be 1.1 or 2")
	}
	if e.Body != "" {
		r.Body = io.NopCloser(strings.NewReader(e.Body))
	}
	if err := e.setHeaders(r.Header); err != nil {
		return q, err
	}
	q.Request, q.As, q.AsOwner = r, e.As, e.AsOwner
	return q, nil
}

func (e *ExplainRequest) setHeaders(h http.Header) error {
	for name, values := range e.Headers {
		if !httpguts.ValidHeaderFieldName(name) {
			return errors.New("headers: a name is not valid")
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("headers: a value of %s is not valid", name)
			}
			h.Add(name, v)
		}
	}
	if e.SandboxID != "" {
		h.Add(routing.HeaderSandboxID, e.SandboxID)
	}
	if port := e.SandboxPort; port != 0 || e.SandboxID != "" && len(h[routing.HeaderSandboxPort]) == 0 {
		if port == 0 {
			port = routing.EnvdPort
		}
		h.Add(routing.HeaderSandboxPort, strconv.Itoa(int(port)))
	}
	if e.Path == simplestCall && len(h["Content-Type"]) == 0 {
		h.Set("Content-Type", "application/json")
	}
	return nil
}
