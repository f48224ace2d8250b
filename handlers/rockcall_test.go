package handlers

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/upstream"
	"github.com/caddy-e2b/gateway/routing"
)

func roleClient(t *testing.T, address string) RoleClient {
	t.Helper()
	e, err := routing.ParseEndpoint(address)
	if err != nil {
		t.Fatal(err)
	}
	balancer := routing.NewBalancer([]*routing.Endpoint{e}, nil)
	t.Cleanup(balancer.Close)
	client := upstream.New(upstream.Config{})
	t.Cleanup(client.CloseIdle)
	return RoleClient{balancer, client}
}

func TestACallOfROCKsOwnAPIIsReadAsROCKAnswers(t *testing.T) {
	var status int
	var answer, got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.RequestURI + " " + r.Header.Get("Content-Type") + " " + string(body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	c := roleClient(t, server.URL)
	var failed *rockError

	status, answer = 200, `{"status":"Success","message":"","error":null,"result":{"state":"running"}}`
	var result struct{ State string }
	if err := c.call(t.Context(), "GET", "/get_status?sandbox_id=a", nil, &result); err != nil || result.State != "running" {
		t.Errorf("%+v, %v", result, err)
	}
	if got != "GET /apis/envs/sandbox/v1/get_status?sandbox_id=a  " {
		t.Errorf("ROCK got %q", got)
	}
	if err := c.call(t.Context(), "POST", "/stop", map[string]string{"sandbox_id": "a"}, nil); err != nil {
		t.Error(err)
	}
	if got != `POST /apis/envs/sandbox/v1/stop application/json {"sandbox_id":"a"}` {
		t.Errorf("ROCK got %q", got)
	}

	answer = `{"status":"Failed","message":"stop failed","error":"sandbox a not found","result":{"code":4000}}`
	if err := c.call(t.Context(), "POST", "/stop", nil, nil); !errors.As(err, &failed) || *failed != (rockError{200, 4000, "sandbox a not found"}) {
		t.Error(err)
	}
	status, answer = 500, "Traceback (most recent call last)"
	if err := c.call(t.Context(), "POST", "/stop", nil, nil); !errors.As(err, &failed) || *failed != (rockError{Status: 500}) {
		t.Error(err)
	}
	status = 200
	for _, answer = range []string{"", "null", "[]", "<html>", `{"detail":"Not Found"}`, `{"status":"Success","result":[]}`} {
		if err := c.call(t.Context(), "GET", "/get_status", nil, &result); !errors.Is(err, errRockAnswer) {
			t.Errorf("%q: %v", answer, err)
		}
	}
	answer = `{"status":"Success","result":"` + strings.Repeat("x", maxRockAnswer) + `"}`
	if err := c.call(t.Context(), "GET", "/get_status", nil, nil); !errors.Is(err, errRockAnswer) {
		t.Error(err)
	}
	server.Close()
	var dial *upstream.DialError
	if err := c.call(t.Context(), "POST", "/stop", nil, nil); !errors.As(err, &dial) {
		t.Error(err)
	}
}
