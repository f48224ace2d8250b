package routing

import (
	"strings"
	"testing"
)

func TestParseDomain(t *testing.T) {
	for in, want := range map[string]Domain{
		"sandbox.example.com":      {Name: "sandbox.example.com"},
		"sandbox.example.com:8443": {Name: "sandbox.example.com", Port: ":8443"},
		"sandbox.localhost":        {Name: "sandbox.localhost"},
		"x-1.2.y":                  {Name: "x-1.2.y"},
	} {
		got, err := ParseDomain(in)
		if err != nil || got != want || got.String() != in {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "localhost", ".example.com", "example.com.", "a..b", "Example.com", "exa_mple.com", "-a.com", "a-.com", "*.example.com",
		"10.0.0.1", "example.com:", "example.com:0", "example.com:99999", "https://example.com", "[::1]", "é.com",
	} {
		if got, err := ParseDomain(in); err == nil {
			t.Errorf("%q is accepted as %+v", in, got)
		}
	}
	// Who writes a URL is told what a domain is, and not of a port that he gave rightly.
	if _, err := ParseDomain("https://example.com:8443"); err == nil || !strings.Contains(err.Error(), "is not a name") {
		t.Errorf("a URL: %v", err)
	}
}
