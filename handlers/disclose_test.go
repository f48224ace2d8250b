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
	d.access.PublicTraffic = true
	mint := func(id, subject string) string { return d.tokens.Mint(auth.AccessToken, id, subject) }
	aliceToken, bobToken := mint("alices", "alice"), mint("bobs", "bob")
	for name, tc := range map[string]struct {
		key, method, path string
		answer, want      string
	}{
		"create":             {alice, "POST", "/sandboxes", ` {"sandboxID": "new" , "n":1.0 }`, ` {"sandboxID": "new" , "n":1.0,"envdAccessToken":"` + mint("new", "alice") + `" }`},
		"create, ROCK's key": {alice, "POST", "/sandboxes", `{"envdAccessToken":"Bearer x","sandboxID":"new"}`, `{"envdAccessToken":"` + mint("new", "alice") + `","sandboxID":"new"}`},
		"create, null":       {alice, "POST", "/sandboxes", `{"envdAccessToken":null,"sandboxID":"new","domain":null}`, `{"envdAccessToken":"` + mint("new", "alice") + `","sandboxID":"new","domain":null}`},
		"create, twice":      {alice, "POST", "/sandboxes", `{"envdAccessToken":"a","sandboxID":"new","envdAccessToken":"b"}`, `{"envdAccessToken":"` + mint("new", "alice") + `","sandboxID":"new","envdAccessToken":"` + mint("new", "alice") + `"}`},
		"create, illegal id": {alice, "POST", "/sandboxes", `{"sandboxID":"../x","envdAccessToken":"x"}`, `{"sandboxID":"../x"}`},
		"about another":      {alice, "GET", "/sandboxes/alices", `{"sandboxID":"bobs","envdAccessToken":"x"}`, `{"sandboxID":"bobs"}`},
		"by an admin":        {root, "GET", "/sandboxes/bobs", `{"sandboxID":"bobs"}`, `{"sandboxID":"bobs","envdAccessToken":"` + bobToken + `"}`},
		"open ports":         {alice, "POST", "/sandboxes", `{"sandboxID":"new","trafficAccessToken":null}`, `{"sandboxID":"new","trafficAccessToken":null,"envdAccessToken":"` + mint("new", "alice") + `"}`},
		"open ports, ROCK's": {alice, "POST", "/sandboxes", `{"sandboxID":"new","trafficAccessToken":"x"}`, `{"sandboxID":"new","envdAccessToken":"` + mint("new", "alice") + `"}`},
		"get_info":           {alice, "GET", "/sandboxes/alices", `{"sandboxID":"alices","state":"running"}`, `{"sandboxID":"alices","state":"running","envdAccessToken":"` + aliceToken + `"}`},
		"get_info, a token":  {alice, "GET", "/sandboxes/alices", `{"sandboxID":"alices","envdAccessToken":"x"}`, `{"sandboxID":"alices","envdAccessToken":"` + aliceToken + `"}`},
		"scope control only": {clerk, "GET", "/sandboxes/alices", `{"sandboxID":"alices","envdAccessToken":"x","trafficAccessToken":"y"}`, `{"sandboxID":"alices"}`},
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

// A token for the ports that are not envd's comes with every sandbox that asks for it,
// because its creator wants that or the operator. Field report D13.
func TestASandboxThatIsNotPublicComesWithATrafficToken(t *testing.T) {
	d := newDesk(t)
	token := func(id string) string {
		return `"trafficAccessToken":"` + d.tokens.Mint(auth.TrafficToken, id, "alice") + `"`
	}
	const private = `{"templateID":"base","network":{"allowPublicTraffic":false}}`
	for name, tc := range map[string]struct {
		public             bool
		method, path, body string
		answer             string
		want               string // "" for none
	}{
		"as its creator wants":    {true, "POST", "/sandboxes", private, `{"sandboxID":"new"}`, token("new")},
		"in place of null":        {true, "POST", "/v2/sandboxes", private, `{"sandboxID":"new","trafficAccessToken":null}`, token("new")},
		"in place of ROCK's":      {true, "POST", "/sandboxes", private, `{"sandboxID":"new","trafficAccessToken":"x"}`, token("new")},
		"public":                  {true, "POST", "/sandboxes", `{"templateID":"base"}`, `{"sandboxID":"new"}`, ""},
		"as the operator wants":   {false, "POST", "/sandboxes", `{"templateID":"base"}`, `{"sandboxID":"new"}`, token("new")},
		"get_info tells no token": {false, "GET", "/sandboxes/alices", "", `{"sandboxID":"alices","metadata":{"e2b-gateway/traffic":"private"}}`, ""},
		"unless there is one":     {true, "GET", "/sandboxes/alices", "", `{"trafficAccessToken":"x","sandboxID":"alices","metadata":{"e2b-gateway/traffic":"private"}}`, token("alices")},
		"whatever the note says":  {true, "GET", "/sandboxes/alices", "", `{"trafficAccessToken":"x","sandboxID":"alices","metadata":{"e2b-gateway/traffic":"x"}}`, token("alices")},
	} {
		d.access.PublicTraffic = tc.public
		d.rock = answerWith(201, unary, tc.answer)
		r := d.ask(alice, tc.method, tc.path, tc.body)
		if r.status != 201 || strings.Contains(r.body, "trafficAccessToken") != (tc.want != "") || !strings.Contains(r.body, tc.want) || strings.Contains(r.body, "e2b-gateway") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
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
		if r := d.ask(key, "GET", "/sandboxes/alices", ""); r.body != want {
			t.Errorf("%s: %s", key, r.body)
		}
	}
}

// With keys or without, and to admins too: an address is nothing to a client, and the
// notes are the gateway's.
func TestNobodyIsShownWhereASandboxIsUnlessTheOperatorWantsIt(t *testing.T) {
	const answer = `{"sandboxID":"alices","state":"running","metadata":{"e2b.agents.kruise.io/sandbox-ip":"10.20.30.41","job":"x","e2b-gateway/traffic":"private","E2B-Gateway/later":"y"}}`
	const hidden, shown = `"metadata":{"job":"x"}`, `"metadata":{"e2b.agents.kruise.io/sandbox-ip":"10.20.30.41","job":"x"}`
	for _, tc := range []struct {
		key  string
		show bool
		want string
	}{
		{alice, false, hidden}, {root, false, hidden}, {"", false, hidden},
		{alice, true, shown}, {root, true, shown}, {"", true, shown},
	} {
		d := newDesk(t)
		d.gateway.opt.ShowAddress = tc.show
		if tc.key == "" {
			d.gateway.opt.Access = nil
		}
		d.rock = answerWith(200, unary, answer)
		if r := d.ask(tc.key, "GET", "/sandboxes/alices", ""); r.status != 200 || !strings.Contains(r.body, tc.want) || strings.Contains(strings.ToLower(r.body), "e2b-gateway") {
			t.Errorf("with %q, show %v: %d %s", tc.key, tc.show, r.status, r.body)
		}
	}
}

// Field report D14: one gateway, two names of it.
func TestTheDomainIsTheOneThatTheClientCameBy(t *testing.T) {
	first, second := routing.Domain{Name: "one.example.com"}, routing.Domain{Name: "two.example.com", Port: ":8443"}
	for _, tc := range []struct {
		domains      []routing.Domain
		host, answer string
		want         string
	}{
		{[]routing.Domain{first, second}, "api.one.example.com", `{"sandboxID":"new"}`, `{"sandboxID":"new","domain":"one.example.com"}`},
		{[]routing.Domain{first, second}, "api.two.example.com:8443", `{"sandboxID":"new"}`, `{"sandboxID":"new","domain":"two.example.com:8443"}`},
		{[]routing.Domain{first, second}, "gateway.internal", `{"sandboxID":"new"}`, `{"sandboxID":"new","domain":"one.example.com"}`},
		{[]routing.Domain{first}, "api.one.example.com", `{"domain" : "rock.internal","sandboxID":"new"}`, `{"domain" : "one.example.com","sandboxID":"new"}`},
		{[]routing.Domain{first}, "api.one.example.com", `{"domain":null,"sandboxID":"new"}`, `{"domain":"one.example.com","sandboxID":"new"}`},
		{nil, "api.one.example.com", `{"domain":"rock.internal","sandboxID":"new"}`, `{"sandboxID":"new"}`},
		{nil, "api.one.example.com", `{"domain":null,"sandboxID":"new"}`, `{"domain":null,"sandboxID":"new"}`},
	} {
		d := newDeskWith(t, func(o *Options) { o.Access, o.Domains = nil, tc.domains })
		d.rock = answerWith(201, unary, tc.answer)
		if r := d.ask("", "POST", "http://"+tc.host+"/sandboxes", `{"templateID":"base"}`); r.status != 201 || r.body != tc.want {
			t.Errorf("%v, %s, %s: %d %s", tc.domains, tc.host, tc.answer, r.status, r.body)
		}
	}
}

// Field report D03.
func TestAStateThatTheSDKsDoNotKnowIsNotFound(t *testing.T) {
	for state, want := range map[string]int{`"running"`: 200, `"paused"`: 200, `"pending"`: 404, `"dead"`: 404, `""`: 404, `null`: 404, `7`: 404} {
		for _, key := range []string{alice, ""} {
			d := newDesk(t)
			if key == "" {
				d.gateway.opt.Access = nil
			}
			d.rock = answerWith(200, unary, `{"sandboxID":"alices","state":`+state+`}`)
			r := d.ask(key, "GET", "/sandboxes/alices", "")
			if r.status != want {
				t.Errorf("%s with %q: %d %s", state, key, r.status, r.body)
			}
			if want == 404 {
				if code, message := r.e2b(t); code != 404 || !strings.Contains(message, "was not found") {
					t.Errorf("%s with %q: %s", state, key, r.body)
				}
			}
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
		got := discloser{d.gateway, who, op, "sandbox.example.com"}.disclose(body)
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
				if routing.Reserves(name) || name == routing.MetadataAddress {
					t.Fatalf("a note is shown: %v", v)
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
