package outage

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
)

// A sandbox that ends elsewhere, through another gateway or ROCK's own API,
// leaves its streams open here.
func TestAStreamEndsSoonAfterItsRecord(t *testing.T) {
	s := open(t, options{cache: "ttl 1m"})
	s.create(t, "busy")
	message := envelope.Append(nil, 0, []byte(`{"process":{"cmd":"/bin/bash","args":["-l","-c","sleep 30"]}}`))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/process.Process/Start", bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/connect+json"}, "Connect-Protocol-Version": {"1"}, "Connect-Timeout-Ms": {"60000"},
		"E2b-Sandbox-Id": {"busy"}, "E2b-Sandbox-Port": {"49983"},
	}
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, envelope.PrefixSize)); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	s.redis.Do("DEL", "alive:busy")
	rest, err := io.ReadAll(resp.Body)
	took := time.Since(begun)
	if err != nil || !strings.Contains(string(rest), `{"error":{"code":"unavailable","message":"The sandbox busy was not found`) {
		t.Errorf("%q, %v", rest, err)
	}
	if took > 2*time.Second {
		t.Errorf("the stream went on for %v", took)
	}
}
