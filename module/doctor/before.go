package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/requestbody"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-e2b/gateway/auth"
)

// handlersBefore looks at what requests come through before they are the
// gateway's, and at proxies with our transport.
func (x *examination) handlersBefore(context.Context) {
	for _, s := range x.view.servers {
		seen := map[string]bool{}
		for _, p := range s.places {
			where := "server " + s.name
			if len(p.hosts) > 0 {
				where += ", site " + strings.Join(p.hosts, ", ")
			}
			for _, h := range p.before {
				if key := where + string(h.raw); !seen[key] {
					seen[key] = true
					x.before(h, where)
				}
			}
			if p.proxy {
				x.proxy(s, p, where)
			}
		}
	}
}

func (x *examination) before(h handler, where string) {
	switch h.name {
	case "encode":
		x.found(encodeBefore, where, "encode stands in front of e2b.")
	case "request_body":
		var limit requestbody.RequestBody
		_ = json.Unmarshal(h.raw, &limit)
		if limit.MaxSize > 0 {
			x.found(bodyLimitBefore, where, "request_body allows %d bytes.", limit.MaxSize)
		}
		if limit.Set != "" {
			x.found(bodySetBefore, where, "request_body sets a body of its own.")
		}
	case "rewrite":
		x.found(rewriteBefore, where, "rewrite, uri or handle_path stands in front of e2b.")
	case "authentication":
		x.found(loginBefore, where, "basic_auth, or another login of Caddy's, stands in front of e2b.")
	case "headers":
		x.headers(h, where)
	}
}

func (x *examination) headers(h handler, where string) {
	var ops headers.Handler
	_ = json.Unmarshal(h.raw, &ops)
	var touched []string
	if ops.Request != nil {
		for _, set := range []http.Header{ops.Request.Set, ops.Request.Add} {
			for name := range set {
				touched = append(touched, name)
			}
		}
		touched = append(touched, ops.Request.Delete...)
		for name := range ops.Request.Replace {
			touched = append(touched, name)
		}
	}
	touched = slices.DeleteFunc(touched, func(name string) bool { return !ofTheAPI(name) })
	if len(touched) > 0 {
		slices.Sort(touched)
		x.found(headersBefore, where, "request_header changes %s.", strings.Join(touched, ", "))
	}
}

// ofTheAPI reports a header that the gateway reads, or a pattern of Caddy's that
// one fits.
func ofTheAPI(pattern string) bool {
	pattern = strings.ToLower(pattern)
	core := strings.Trim(pattern, "*")
	for _, name := range []string{
		"x-api-key", "x-access-token", "authorization", "e2b-traffic-access-token", "e2b-sandbox-id", "e2b-sandbox-port",
		"connect-protocol-version", "connect-timeout-ms", "content-type",
	} {
		front, back := strings.HasPrefix(pattern, "*"), strings.HasSuffix(pattern, "*")
		switch {
		case front && back && strings.Contains(name, core),
			front && strings.HasSuffix(name, core),
			back && strings.HasPrefix(name, core),
			name == pattern:
			return true
		}
	}
	return false
}

// proxy looks at a reverse_proxy with our transport.
func (x *examination) proxy(s *server, p *place, where string) {
	var proxy reverseproxy.Handler
	if json.Unmarshal(p.itself, &proxy) != nil {
		return
	}
	if proxy.ResponseBuffers != 0 {
		x.found(proxyBuffers, where, "reverse_proxy has response_buffers.")
	}
	if s.ReadIdleTimeout < 0 && proxy.RequestBuffers == 0 {
		x.found(proxyBodyIdle, where, "read_body_idle is off, and reverse_proxy has no request_buffers.")
	}
}

// logs looks for credentials that get into logs past the gateway's redaction.
func (x *examination) logs(context.Context) {
	for _, s := range x.view.servers {
		for _, h := range s.all {
			var field struct {
				Key, Value string
			}
			if h.name != "log_append" || json.Unmarshal(h.raw, &field) != nil {
				continue
			}
			if name, ok := credentialIn(field.Value); ok {
				x.found(credentialsLogged, "server "+s.name, "log_append writes %s into the field %q.", name, field.Key)
			}
		}
		if s.writesWhatItLogs() && x.unfilteredDebug() {
			x.found(credentialsDebug, "server "+s.name, "A log is at level debug without the filter, and the server has rewrite, uri or reverse_proxy.")
		}
	}
}

// requestField is a placeholder for a header or query parameter of a request.
var requestField = regexp.MustCompile(`\{http\.request\.(?:header|orig_uri\.query|uri\.query)\.([^{}]+)\}`)

// credentialIn finds a placeholder for something that opens something.
func credentialIn(value string) (name string, ok bool) {
	for _, m := range requestField.FindAllStringSubmatch(value, -1) {
		if auth.RedactHeader(http.Header{m[1]: {"x"}})[m[1]][0] == auth.Redacted {
			return m[1], true
		}
	}
	return "", false
}

// writesWhatItLogs reports handlers that log whole requests in their own name.
func (s *server) writesWhatItLogs() bool {
	return slices.ContainsFunc(s.all, func(h handler) bool {
		return h.name == "rewrite" || h.name == "reverse_proxy" && !slices.ContainsFunc(s.places, func(p *place) bool {
			return p.proxy && string(p.itself) == string(h.raw)
		})
	})
}

func (x *examination) unfilteredDebug() bool {
	for _, log := range x.view.logging.Logs {
		if log != nil && strings.EqualFold(log.Level, "debug") && moduleName(log.EncoderRaw, "format") != "filter" {
			return true
		}
	}
	return false
}

// moduleName is the name of a module in its JSON.
func moduleName(raw json.RawMessage, key string) string {
	var fields map[string]json.RawMessage
	var name string
	_ = json.Unmarshal(raw, &fields)
	_ = json.Unmarshal(fields[key], &name)
	return name
}
