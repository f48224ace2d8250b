package auth

import (
	"net/http"
	"testing"
)

// Contract checklist 18 and 19.
func TestASandboxNeverSeesWhatOpensTheControlPlane(t *testing.T) {
	h := http.Header{}
	for _, name := range []string{"x-api-key", "X-API-KEY", "x-key", "XRL-Authorization", "Authorization", "X-Access-Token"} {
		h.Set(name, "secret")
	}
	StripControlCredentials(h)
	if len(h) != 2 || h.Get("Authorization") == "" || h.Get("X-Access-Token") == "" {
		t.Errorf("left: %v", h)
	}
}
