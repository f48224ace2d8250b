package redis

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// at is the time of these tests, in Unix seconds.
const at = 1_787_552_000

func TestTheEndOfASandboxIsNowAndItsMinutes(t *testing.T) {
	for name, tc := range map[string]struct{ document, want string }{
		"rock's own":                     {`[{"auto_clear_time":"30","expire_time":"1787552764"}]`, `{"auto_clear_time":"30","expire_time":"1787553800"}`},
		"a plain string":                 {`{"auto_clear_time":"2","expire_time":"1787552001"}`, `{"auto_clear_time":"2","expire_time":"1787552120"}`},
		"over, but not yet stopped":      {`{"auto_clear_time":"2","expire_time":"5"}`, `{"auto_clear_time":"2","expire_time":"1787552120"}`},
		"as numbers":                     {`{"auto_clear_time":2,"expire_time":1787552001}`, `{"auto_clear_time":2,"expire_time":1787552120}`},
		"fields that are not known":      {`{"x":{"y":[1]},"auto_clear_time":"2","expire_time":"1"}`, `{"auto_clear_time":"2","expire_time":"1787552120","x":{"y":[1]}}`},
		"never earlier":                  {`{"auto_clear_time":"2","expire_time":"1787552121"}`, ``},
		"not for nothing":                {`{"auto_clear_time":"2","expire_time":"1787552120"}`, ``},
		"due at once":                    {`{"auto_clear_time":"0","expire_time":"1787552000"}`, ``},
		"no minutes":                     {`{"expire_time":"1787552000"}`, ``},
		"no number of minutes":           {`{"auto_clear_time":"soon","expire_time":"1787552000"}`, ``},
		"more minutes than can be":       {`{"auto_clear_time":"9223372036854775807","expire_time":"1787552000"}`, ``},
		"fewer than none":                {`{"auto_clear_time":"-2","expire_time":"1"}`, ``},
		"no end":                         {`{"auto_clear_time":"2"}`, ``},
		"an end that is null":            {`{"auto_clear_time":"2","expire_time":null}`, ``},
		"an end that is no whole number": {`{"auto_clear_time":"2","expire_time":"1787552000.5"}`, ``},
	} {
		got, ok, err := extended([]byte(tc.document), Fields{}.withDefaults(), time.Unix(at, 0))
		if err != nil || ok != (tc.want != "") || string(got) != tc.want {
			t.Errorf("%s: %s, %v, %v", name, got, ok, err)
		}
	}
	for document, want := range map[string]error{`[]`: routing.ErrGone, `{}`: routing.ErrGone, `"x"`: routing.ErrMalformed, `{`: routing.ErrMalformed} {
		if _, ok, err := extended([]byte(document), Fields{}.withDefaults(), time.Unix(at, 0)); ok || !errors.Is(err, want) {
			t.Errorf("%s: %v", document, err)
		}
	}
	names := Fields{AutoClearTime: "minutes", ExpireTime: "end"}.withDefaults()
	if got, ok, err := extended([]byte(`{"minutes":"1","end":"1"}`), names, time.Unix(at, 0)); !ok || err != nil || string(got) != `{"end":"1787552060","minutes":"1"}` {
		t.Errorf("other names: %s, %v, %v", got, ok, err)
	}
}

func FuzzExtended(f *testing.F) {
	for _, document := range []string{
		`[{"auto_clear_time":"30","expire_time":"1787552764"}]`, `{"auto_clear_time":2,"expire_time":1}`, `{"auto_clear_time":"2","expire_time":"","x":"\u003c<"}`,
		`{"auto_clear_time":"2","expire_time":"1","expire_time":"2"}`, `[`, `{"auto_clear_time":{},"expire_time":[]}`,
	} {
		f.Add([]byte(document))
	}
	names := Fields{}.withDefaults()
	f.Fuzz(func(t *testing.T, document []byte) {
		before, _ := object(document)
		got, ok, err := extended(document, names, time.Unix(at, 0))
		if !ok {
			if got != nil {
				t.Fatalf("%q", got)
			}
			return
		}
		after, readable := object(got)
		if err != nil || readable != nil || len(after) != len(before) {
			t.Fatalf("%q became %q: %v", document, got, err)
		}
		minutes, _ := strconv.ParseInt(scalar(after[names.AutoClearTime]), 10, 64)
		was, _ := strconv.ParseInt(scalar(before[names.ExpireTime]), 10, 64)
		end, err := strconv.ParseInt(scalar(after[names.ExpireTime]), 10, 64)
		if err != nil || end <= was || end != at+minutes*60 {
			t.Fatalf("%q became %q", document, got)
		}
		for name, value := range before {
			if name == names.ExpireTime {
				continue
			}
			var x, y any
			if json.Unmarshal(value, &x) != nil || json.Unmarshal(after[name], &y) != nil {
				t.Fatalf("%q became %q", document, got)
			}
			one, _ := json.Marshal(x)
			two, _ := json.Marshal(y)
			if !strings.EqualFold(string(one), string(two)) {
				t.Fatalf("%q: %q became %q", name, value, after[name])
			}
		}
	})
}
