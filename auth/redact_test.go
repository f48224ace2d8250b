package auth

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestNoSecretIsLeftInAURI(t *testing.T) {
	for uri, want := range map[string]string{
		"/files":          "/files",
		"/files?":         "/files?",
		"/files?path=/a":  "/files?path=/a",
		"/signature=v1_x": "/signature=v1_x", // a path names nothing
		"/files?path=/a&signature=v1_x&username=user":  "/files?path=/a&signature=REDACTED&username=user",
		"/files?signature=v1_x":                        "/files?signature=REDACTED",
		"/files?signature=":                            "/files?signature=REDACTED",
		"/files?signature":                             "/files?signature",
		"/files?signature=v1_x=y;z?u#v":                "/files?signature=REDACTED",
		"/files?signature=a&signature=b":               "/files?signature=REDACTED&signature=REDACTED",
		"/files?sign%61ture=v1_x":                      "/files?sign%61ture=REDACTED",
		"/files?SIGNATURE=v1_x":                        "/files?SIGNATURE=REDACTED",
		"/files?a=b;signature=v1_x":                    "/files?a=b;signature=REDACTED",
		"/files?a;signature=v1_x":                      "/files?a;signature=REDACTED",
		"/files?a?signature=v1_x":                      "/files?a?signature=REDACTED",
		"/?x-access-token=t&X_API_KEY=k&a=1":           "/?x-access-token=REDACTED&X_API_KEY=REDACTED&a=1",
		"/?my_signature=1":                             "/?my_signature=1",
		"http://user:password@host/files?signature=s":  "http://REDACTED@host/files?signature=REDACTED",
		"https://host/a@b?c=d@e":                       "https://host/a@b?c=d@e",
		"http://a@b@host":                              "http://REDACTED@host",
		"?signature=s":                                 "?signature=REDACTED",
		"%zz?%zz=1&signature=s&%":                      "%zz?%zz=1&signature=REDACTED&%",
		"/files?signature_expiration=17&signature=v_1": "/files?signature_expiration=17&signature=REDACTED",
	} {
		if got := RedactURI(uri); got != want {
			t.Errorf("%s\n got %s\nwant %s", uri, got, want)
		}
	}
}

func TestNoSecretIsLeftInHeaders(t *testing.T) {
	given := http.Header{
		"X-Api-Key":                {"s1", "s2"},
		"x_api_key":                {"s"},
		"X.Api.Key":                {"s"},
		"X-Access-Token":           {"s"},
		"E2b-Traffic-Access-Token": {"s"},
		"X-Key":                    {"s"},
		"Xrl-Authorization":        {"s"},
		"Authorization":            {"Bearer s"},
		"Proxy-Authorization":      {"s"},
		"Referer":                  {"https://host/files?path=a&signature=s"},
		"Accept":                   {"text/html; q=0.5"},
		"E2b-Sandbox-Id":           {"abc"},
	}
	before := given.Clone()
	got := RedactHeader(given)
	want := http.Header{
		"X-Api-Key":                {Redacted},
		"x_api_key":                {Redacted},
		"X.Api.Key":                {Redacted},
		"X-Access-Token":           {Redacted},
		"E2b-Traffic-Access-Token": {Redacted},
		"X-Key":                    {Redacted},
		"Xrl-Authorization":        {Redacted},
		"Authorization":            {Redacted},
		"Proxy-Authorization":      {Redacted},
		"Referer":                  {"https://host/files?path=a&signature=REDACTED"},
		"Accept":                   {"text/html; q=0.5"},
		"E2b-Sandbox-Id":           {"abc"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if !reflect.DeepEqual(given, before) {
		t.Errorf("the headers themselves were changed: %v", given)
	}
}

// FuzzRedactURI holds that no query parser finds a secret in what is logged,
// and that what holds no secret is logged as it came.
func FuzzRedactURI(f *testing.F) {
	for _, seed := range []string{"/files?path=/a&signature=v1_x", "a;sign%61ture=b?c#d&e", "http://u:p@h/?x_key=1", "?&;=&signature=%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		shown := RedactURI(uri)
		if again := RedactURI(shown); again != shown {
			t.Errorf("not stable: %q, then %q", shown, again)
		}
		_, query, _ := strings.Cut(shown, "?")
		for _, part := range strings.FieldsFunc(query, func(r rune) bool { return strings.ContainsRune("&;?#", r) }) {
			name, value, ok := strings.Cut(part, "=")
			decoded, err := url.QueryUnescape(name)
			if ok && err == nil && secretName(decoded) && value != Redacted {
				t.Errorf("%q is logged as %q", uri, shown)
			}
		}
		if !strings.Contains(uri, "=") && !strings.Contains(uri, "@") && shown != uri {
			t.Errorf("%q is logged as %q", uri, shown)
		}
	})
}
