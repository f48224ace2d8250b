package auth

import (
	"errors"
	"net/http"
	"testing"
)

// Contract checklist 20; field report M10.
func TestATrafficTokenOpensThePortsOfOneSandboxOfOneOwner(t *testing.T) {
	k := tokens(t, "a")
	good := k.Mint(TrafficToken, "sbx-1", "alice")
	for name, tc := range map[string]struct {
		values []string
		want   error
	}{
		"good":            {[]string{good}, nil},
		"none":            {nil, ErrNoTrafficToken},
		"empty":           {[]string{""}, ErrTrafficToken},
		"an access token": {[]string{k.Mint(AccessToken, "sbx-1", "alice")}, ErrTrafficToken},
		"another sandbox": {[]string{k.Mint(TrafficToken, "sbx-2", "alice")}, ErrTrafficToken},
		"a removed key":   {[]string{tokens(t, "b").Mint(TrafficToken, "sbx-1", "alice")}, ErrTrafficToken},
		"sent twice":      {[]string{good, good}, ErrTrafficToken},
		"joined":          {[]string{good + ", " + good}, ErrTrafficToken},
		"with more":       {[]string{good + "A"}, ErrTrafficToken},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			for _, v := range tc.values {
				h.Add("e2b-traffic-access-token", v)
			}
			claim, err := k.TrafficClaim(h, "sbx-1")
			if !errors.Is(err, tc.want) || err == nil && (!claim.By("alice") || claim.By("bob")) {
				t.Errorf("%v", err)
			}
		})
	}
}
