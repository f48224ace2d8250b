package auth

import (
	"errors"
	"net/http"
	"testing"
)

// Contract checklist 9; field report M15.
func TestACredentialHasOneValue(t *testing.T) {
	for name, tc := range map[string]struct {
		values []string
		value  string
		err    error
	}{
		"one":    {[]string{"a b"}, "a b", nil},
		"empty":  {[]string{""}, "", nil},
		"none":   {nil, "", ErrNotSent},
		"twice":  {[]string{"a", "a"}, "", ErrSentTwice},
		"joined": {[]string{"a,a"}, "", ErrSentTwice},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := Sole(http.Header{HeaderAccessToken: tc.values}, HeaderAccessToken)
			if value != tc.value || !errors.Is(err, tc.err) {
				t.Errorf("%q, %v", value, err)
			}
		})
	}
}
