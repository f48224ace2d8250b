package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// Field report D13.
func TestAnAnswerCarriesTheTokensThatAreGoodHere(t *testing.T) {
	d := newDesk(t)
	mint := func(id, subject string) string { return d.tokens.Mint(auth.AccessToken, id, subject) }
	aliceToken, bobToken := mint("alices", "alice"), mint("bobs", "bob")
	traffic := d.tokens.Mint(auth.TrafficToken, "alices", "alice")
	for name, tc := range map[string]struct {
		key, method, path string
		answer, want      string
	}{
		"create":              {alice, "POST", "/sandboxes", ` {"sandboxID": "new" , "n":1.0 }`, ` {"sandboxID": "new" , "n":1.0,"envdAccessToken":"` + mint("new", "alice") + `" }`},
		"create, ROCK's key":  {alice, "POST", "/sandboxes", `{"envdAccessToken":"Bearer x","sandboxID":"new"}`, `{"envdAccessToken":"` + mint("new", "alice") + `","sandboxID":"new"}`},
		"create, null":        {alice, "POST", "/sandboxes", `{"envdAccessToken":null,"sandboxID":"new","domain":null}`, `{"envdAccessToken":"` + mint("new", "alice") + `","sandboxID":"new","domain":null}`},
		"create, twice":       {alice, "POST", "/sandboxes", `{"envdAccessToken":"a","sandboxID":"new","envdAccessToken":"b"}`, `{"envdAccessToken":"` + mint("new", "alice") + `","sandboxID":"new","envdAccessToken":"` + mint("new", "alice") + `"}`},
		"create, illegal id":  {alice, "POST", "/sandboxes", `{"sandboxID":"../x","envdAccessToken":"x"}`, `{"sandboxID":"../x"}`},
		"connect":             {alicesOther, "POST", "/sandboxes/alices/connect", `{"sandboxID":"alices"}`, `{"sandboxID":"alices","envdAccessToken":"` + aliceToken + `"}`},
		"connect v2":          {alice, "POST", "/v2/sandboxes/alices/connect", `{"sandboxID":"alices"}`, `{"sandboxID":"alices","envdAccessToken":"` + aliceToken + `"}`},
		"resume, by an admin": {root, "POST", "/sandboxes/bobs/resume", `{"sandboxID":"bobs"}`, `{"sandboxID":"bobs","envdAccessToken":"` + bobToken + `"}`},
		"about another":       {alice, "POST", "/sandboxes/alices/connect", `{"sandboxID":"bobs","envdAccessToken":"x"}`, `{"sandboxID":"bobs"}`},
		"traffic token":       {alice, "POST", "/sandboxes/alices/connect", `{"sandboxID":"alices","trafficAccessToken":"x"}`, `{"sandboxID":"alices","trafficAccessToken":"` + traffic + `","envdAccessToken":"` + aliceToken + `"}`},
		"open ports":          {alice, "POST", "/sandboxes/alices/connect", `{"sandboxID":"alices","trafficAccessToken":null}`, `{"sandboxID":"alices","trafficAccessToken":null,"envdAccessToken":"` + aliceToken + `"}`},
		"get_info":            {alice, "GET", "/sandboxes/alices", `{"sandboxID":"alices","state":"running"}`, `{"sandboxID":"alices","state":"running","envdAccessToken":"` + aliceToken + `"}`},
		"get_info, a token":   {alice, "GET", "/sandboxes/alices", `{"sandboxID":"alices","envdAccessToken":"x"}`, `{"sandboxID":"alices","envdAccessToken":"` + aliceToken + `"}`},
		"scope control only":  {clerk, "POST", "/sandboxes/alices/connect", `{"sandboxID":"alices","envdAccessToken":"x","trafficAccessToken":"y"}`, `{"sandboxID":"alices"}`},
		"where it is": {alice, "GET", "/sandboxes/alices", `{"sandboxID":"alices","metadata":{"e2b.agents.kruise.io/sandbox-ip":"10.20.30.41","job":"x"}}`,
			`{"sandboxID":"alices","metadata":{"job":"x"},"envdAccessToken":"` + aliceToken + `"}`},
		"where it is, for an admin": {root, "GET", "/sandboxes/alices", `{"sandboxID":"alices","metadata":{"e2b.agents.kruise.io/sandbox-ip":"10.20.30.41"}}`,
			`{"sandboxID":"alices","metadata":{"e2b.agents.kruise.io/sandbox-ip":"10.20.30.41"},"envdAccessToken":"` + aliceToken + `"}`},
		"metadata is a user's": {alice, "GET", "/sandboxes/alices", `{"sandboxID":"alices","metadata":{"envdAccessToken":"mine","sandboxID":"a"}}`,
			`{"sandboxID":"alices","metadata":{"envdAccessToken":"mine","sandboxID":"a"},"envdAccessToken":"` + aliceToken + `"}`},
	} {
		d.rock = func(w http.ResponseWriter, r *http.Request) { answerWith(201, unary, tc.answer)(w, r) }
		r := d.ask(tc.key, tc.method, tc.path, "{}")
		if r.status != 201 || r.body != tc.want || r.header.Get("Content-Length") != fmt.Sprint(len(tc.want)) {
			t.Errorf("%s: %d %v\n%s\n%s", name, r.status, r.header, r.body, tc.want)
		}
	}
}

func TestInPassthroughTheTokenIsTheCallersOwnKey(t *testing.T) {
	d := newDesk(t)
	d.access.Tokens = nil
	for key, want := range map[string]string{
		alicesOther: `{"sandboxID":"alices","envdAccessToken":"` + alicesOther + `"}`,
		clerk:       `{"sandboxID":"alices"}`,
	} {
		d.rock = answerWith(200, unary, `{"sandboxID":"alices","envdAccessToken":"`+alice+`","trafficAccessToken":"x"}`)
		if r := d.ask(key, "POST", "/sandboxes/alices/connect", "{}"); r.body != want {
			t.Errorf("%s: %s", key, r.body)
		}
	}
}

func TestNoAnswerShowsTheNoteOfTheOwner(t *testing.T) {
	d := newDesk(t)
	note := `"e2b-gateway/owner":"` + alices.Metadata() + `"`
	for name, tc := range map[string]struct {
		path         string
		status       int
		answer, want string
	}{
		"get_info":       {"/sandboxes/alices", 200, `{"sandboxID":"alices","metadata":{ "a":"b", ` + note + ` }}`, `{"sandboxID":"alices","metadata":{ "a":"b" }}`},
		"another order":  {"/sandboxes/alices", 200, `{"metadata":{` + note + `,"a":"b"},"sandboxID":"alices"}`, `{"metadata":{"a":"b"},"sandboxID":"alices"}`},
		"escaped":        {"/sandboxes/alices", 200, `{"metadata":{` + strings.Replace(note, "/", `\/`, 1) + `},"sandboxID":"alices"}`, `{"metadata":{},"sandboxID":"alices"}`},
		"one level down": {"/sandboxes/alices/logs", 200, `{"logs":[{"metadata":{` + note + `}}]}`, `{"logs":[{"metadata":{}}]}`},
		"of the subject": {"/sandboxes/alices", 200, `{"metadata":{"e2b-gateway/subject":"alice"},"sandboxID":"alices"}`, `{"metadata":{},"sandboxID":"alices"}`},
	} {
		d.rock = answerWith(tc.status, unary, tc.answer)
		r := d.ask(alice, "GET", tc.path, "")
		body := strings.Replace(r.body, `,"envdAccessToken":"`+d.tokens.Mint(auth.AccessToken, "alices", "alice")+`"`, "", 1)
		if r.status != tc.status || body != tc.want {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	for _, answer := range []string{
		`{"code":400,"message":"bad value {'e2b-gateway/owner': 'alice'}"}`,
		`{"detail":"bad value {'e2b-gateway/owner': 'alice'}"}`,
		`{"status":"Failed","message":"x","error":"e2b-gateway/owner","result":{"code":4000}}`,
	} {
		d.rock = answerWith(400, unary, answer)
		if strings.Contains(answer, "Failed") {
			d.rock = answerWith(200, unary, answer)
		}
		r := d.ask(alice, "POST", "/sandboxes", `{"templateID":"base"}`)
		if code, message := r.e2b(t); code != 400 || message == "" || strings.Contains(r.body, "alice") || strings.Contains(r.body, "e2b-gateway") {
			t.Errorf("%s: %s", answer, r.body)
		}
	}
}

// What cannot be looked through cannot be shown.
func TestAnAnswerThatCannotBeUnderstoodIsNotShown(t *testing.T) {
	for name, tc := range map[string]struct{ path, answer string }{
		"no JSON":  {"/sandboxes/alices", `{"sandboxID":"alices"`},
		"a string": {"/sandboxes/alices", `"e2b_key"`},
		"too long": {"/sandboxes/alices", `{` + strings.Repeat(" ", maxDisclosed) + `}`},
	} {
		d := newDesk(t)
		d.rock = answerWith(200, unary, tc.answer)
		r := d.ask(alice, "GET", tc.path, "")
		if code, _ := r.e2b(t); code != 500 || strings.Contains(r.body, "e2b_key") {
			t.Errorf("%s: %.200s", name, r.body)
		}
	}
}

func FuzzDisclose(f *testing.F) {
	f.Add([]byte(`{"sandboxID":"a","envdAccessToken":"rock-secret","metadata":{"e2b-gateway/owner":"x"}}`))
	f.Add([]byte(`[{"sandboxID":"a","metadata":{"e2b-gateway\/owner":"x"}}]`))
	d := newDesk(f)
	who := &caller{access: d.access, key: d.keys.keys[auth.DigestOf(alice)], secret: alice, subject: "alice"}
	f.Fuzz(func(t *testing.T, body []byte) {
		op := routing.Classify("GET", "/sandboxes/a")
		got := discloser{d.gateway, who, op}.disclose(body)
		if len(got) == 0 {
			return
		}
		var v any
		if err := json.Unmarshal(got, &v); err != nil {
			t.Fatalf("%q became %q: %v", body, got, err)
		}
		inspect(t, v, false)
	})
}

// inspect finds what must not be shown.
func inspect(t *testing.T, v any, inMetadata bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			inspect(t, e, false)
		}
	case map[string]any:
		for name, e := range v {
			if inMetadata {
				if name == routing.MetadataOwner {
					t.Fatalf("the note is shown: %v", v)
				}
				continue
			}
			if token, ok := e.(string); name == "envdAccessToken" && (!ok || !strings.HasPrefix(token, string(auth.AccessToken))) {
				t.Fatalf("a token of ROCK's is shown: %v", v)
			}
			inspect(t, e, name == "metadata")
		}
	}
}
