package module

import (
	"reflect"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-e2b/gateway/auth"
)

// redactServer takes credentials out of the lines that a server of Caddy's
// writes about requests: the access log and the error log, those of requests
// that never reach our handler too. Without it a bare "log" in a Caddyfile
// writes down every API key (caddyserver/caddy#3531, #7566): Caddy copies a
// request's headers for the log before any handler runs, and of E2B's it knows
// none to be secret.
//
// Everything else about these logs stays Caddy's: their names, levels, fields,
// filters, and where they go.
//
// It returns false when the server is of a version of Caddy that keeps its
// loggers elsewhere; nothing is changed then.
func redactServer(server *caddyhttp.Server) bool {
	return redactLoggers(server, "accessLogger", "errorLogger")
}

// redactProxy does the same for the lines that the reverse_proxy writes that a
// module belongs to: at level debug about every request, and at level warn about
// those whose answer is cut.
func redactProxy(ctx caddy.Context) bool {
	for _, parent := range ctx.Modules() {
		if proxy, ok := parent.(*reverseproxy.Handler); ok {
			return redactLoggers(proxy, "logger")
		}
	}
	return true // nobody's, so nobody logs
}

// redactLoggers wraps the loggers that a module keeps in some fields. The fields
// are not exported, and there is no other way in: the log's own modules, such as
// encoders, are made from its config alone. TestNoCredentialReachesALog fails
// when Caddy moves a field.
//
// Call it while the config is being provisioned: no request is served yet.
func redactLoggers(owner any, fields ...string) bool {
	var loggers []**zap.Logger
	for _, field := range fields {
		f := reflect.ValueOf(owner).Elem().FieldByName(field)
		if !f.IsValid() || f.Type() != reflect.TypeFor[*zap.Logger]() {
			return false
		}
		loggers = append(loggers, (**zap.Logger)(f.Addr().UnsafePointer()))
	}
	for _, logger := range loggers {
		if *logger == nil {
			continue // this log is off
		}
		if _, done := (*logger).Core().(redactingCore); !done {
			*logger = (*logger).WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return redactingCore{core} }))
		}
	}
	return true
}

// redactingCore passes log entries on without the credentials in them.
type redactingCore struct{ zapcore.Core }

// With implements [zapcore.Core].
func (c redactingCore) With(fields []zapcore.Field) zapcore.Core {
	return redactingCore{c.Core.With(redactFields(fields))}
}

// Check implements [zapcore.Core]. The cores below add themselves to the entry
// and are written to without us, so the entry has to bring the redaction along.
func (c redactingCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	checked = c.Core.Check(e, checked)
	if checked == nil {
		return nil
	}
	return checked.Before(e, redactEntry)
}

// Write implements [zapcore.Core].
func (c redactingCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(e, redactFields(fields))
}

func redactEntry(e zapcore.Entry, fields []zapcore.Field) (zapcore.Entry, []zapcore.Field) {
	return e, redactFields(fields)
}

// redactFields replaces the fields that show a request or headers. The slice it
// is given is shared between loggers and stays as it is.
func redactFields(fields []zapcore.Field) []zapcore.Field {
	shown := fields
	for i, f := range fields {
		var redacted zapcore.ObjectMarshaler
		switch v := f.Interface.(type) {
		case caddyhttp.LoggableHTTPRequest:
			redacted = redactedRequest(v)
		case caddyhttp.LoggableHTTPHeader:
			redacted = redactedHeader(v)
		default:
			continue
		}
		if &shown[0] == &fields[0] {
			shown = append([]zapcore.Field(nil), fields...)
		}
		shown[i].Interface = redacted
	}
	return shown
}

// redactedRequest is a request as Caddy logs it, without credentials.
type redactedRequest caddyhttp.LoggableHTTPRequest

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (r redactedRequest) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	shown := r.WithContext(r.Context())
	shown.Header = auth.RedactHeader(r.Header)
	shown.RequestURI = auth.RedactURI(r.RequestURI)
	return caddyhttp.LoggableHTTPRequest{Request: shown, ShouldLogCredentials: r.ShouldLogCredentials}.MarshalLogObject(enc)
}

// redactedHeader is a set of headers as Caddy logs it, without credentials.
type redactedHeader caddyhttp.LoggableHTTPHeader

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (h redactedHeader) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	return caddyhttp.LoggableHTTPHeader{
		Header:               auth.RedactHeader(h.Header),
		ShouldLogCredentials: h.ShouldLogCredentials,
	}.MarshalLogObject(enc)
}
