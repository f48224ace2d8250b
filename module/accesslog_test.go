package module

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A Caddy that keeps its loggers elsewhere is left alone.
func TestOnlyLoggersAreReplaced(t *testing.T) {
	for name, owner := range map[string]any{
		"no such field":  &struct{ other *zap.Logger }{zap.NewNop()},
		"another type":   &struct{ logger int }{1},
		"another logger": &struct{ logger *zap.SugaredLogger }{zap.NewNop().Sugar()},
	} {
		if redactLoggers(owner, "logger") {
			t.Errorf("%s: something was replaced", name)
		}
	}
	both := &struct{ logger *zap.Logger }{zap.NewNop()}
	before := both.logger
	if redactLoggers(both, "logger", "missing") || both.logger != before {
		t.Error("one of two loggers was replaced")
	}
}

func TestALoggerIsRedactedOnce(t *testing.T) {
	owner := &struct{ logger, off *zap.Logger }{logger: zap.NewExample()}
	for range 2 {
		if !redactLoggers(owner, "logger", "off") {
			t.Fatal("not replaced")
		}
	}
	if _, twice := owner.logger.Core().(redactingCore).Core.(redactingCore); twice {
		t.Error("redacted twice")
	}
}

// Fields are shared by the loggers of a host, so they must stay as they are.
func TestRedactionLeavesTheFieldsOfOthersAlone(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Api-Key", "key")
	fields := []zapcore.Field{zap.Int("a", 1), zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: r})}
	core, seen := observer.New(zapcore.DebugLevel)
	zap.New(redactingCore{core}).Info("", fields...)
	zap.New(core).Info("", fields...)
	for i, want := range []string{"REDACTED", "key"} {
		headers := seen.All()[i].ContextMap()["request"].(map[string]any)["headers"].(map[string]any)
		if got := headers["X-Api-Key"].([]any)[0]; got != want {
			t.Errorf("line %d has %q, want %q", i, got, want)
		}
	}
}

// What Caddy does for each request whether it is logged or not must cost no
// more with redaction than without.
func TestRedactionCostsNothingWhereNothingIsLogged(t *testing.T) {
	core, _ := observer.New(zapcore.WarnLevel)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	field := zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: r})
	allocations := func(logger *zap.Logger) float64 {
		return testing.AllocsPerRun(100, func() {
			if c := logger.WithLazy(field).Check(zapcore.InfoLevel, "handled request"); c != nil {
				t.Error("logged")
			}
		})
	}
	plain, redacting := allocations(zap.New(core)), allocations(zap.New(redactingCore{core}))
	if redacting > plain {
		t.Errorf("%v allocations, %v without redaction", redacting, plain)
	}
}
