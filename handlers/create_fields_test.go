package handlers

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

var openRules = createRules{lifetime: 300 * time.Second}

// Contract checklist 24 and 25, field report D01.
func TestACreateGetsWhatRockRequiresAndNothingElse(t *testing.T) {
	for in, want := range map[string]string{
		`{"templateID":"base"}`:                      `{"templateID":"base","metadata":{},"timeout":300}`,
		` {  "templateID":"base", "x":1e2}`:          ` {  "templateID":"base", "x":1e2,"metadata":{},"timeout":300}`,
		`{"templateID":"base","timeout":5}`:          `{"templateID":"base","timeout":5,"metadata":{}}`,
		`{"metadata":{"a":"b"},"templateID":"base"}`: `{"metadata":{"a":"b"},"templateID":"base","timeout":300}`,
		`{"timeout":5,"metadata":{},"secure":true}`:  `{"timeout":5,"metadata":{},"secure":true}`,
		`{}`: `{"metadata":{},"timeout":300}`,
	} {
		got, err := translateCreate([]byte(in), openRules)
		if err != nil || string(got.body) != want {
			t.Errorf("%s became %s, %v", in, got.body, err)
		}
	}
	for _, in := range []string{``, `[]`, `null`, `"x"`, `{`, `{} {}`} {
		g := newRig(t)
		r := g.send(t, "POST", "/sandboxes", unary, in)
		if code, _ := r.e2b(t); code != 400 || g.upstreamHits.Load() != 0 {
			t.Errorf("%q: %d %s", in, r.status, r.body)
		}
	}
}

// Field report D02: what SDKs send without their user's having asked for anything.
func TestAFieldThatAsksForNothingIsDroppedUnlessRockTakesIt(t *testing.T) {
	const rest = `"templateID":"base","metadata":{},"timeout":300`
	for field, kept := range map[string]bool{
		`"autoPauseMemory":true`:                             false,
		`"autoPauseMemory":false`:                            false,
		`"network":null`:                                     false,
		`"network":{}`:                                       false,
		`"network":{"allowPublicTraffic":true}`:              false,
		`"network":{"allowPublicTraffic":null,"denyOut":[]}`: false,
		`"network":{"rules":{},"maskRequestHost":""}`:        false,
		`"mcp":null`:                                         false,
		`"mcp":{}`:                                           false,
		`"iam":{"tokens":{}}`:                                false,
		`"volumeMounts":[]`:                                  false,
		`"later":{"a":{"b":[]},"c":null,"d":false}`:          false,
		`"later":""`:                                         false,
		`"secure":false`:                                     true,
		`"secure":null`:                                      true,
		`"allow_internet_access":true`:                       true,
		`"autoPause":false`:                                  true,
		`"autoResume":{"enabled":false}`:                     true,
		`"envVars":{}`:                                       true,
		`"later":0`:                                          true,
		`"later":[null]`:                                     true,
		`"later":"x"`:                                        true,
		`"later":` + strings.Repeat("[", 30) + strings.Repeat("]", 30): true,
		`"autoPause":null`:             true,
		`"allow_internet_access":null`: true,
		`"autoResume":null`:            true,
	} {
		want := `{` + rest + `}`
		if kept {
			want = `{` + rest + `,` + field + `}`
		}
		got, err := translateCreate([]byte(`{`+rest+`,`+field+`}`), openRules)
		if err != nil || string(got.body) != want {
			t.Errorf("%s: %s, %v", field, got.body, err)
		}
	}
}

// Field report D02: a safety option that is silently ignored is worse than none.
func TestAFieldThatCannotBeKeptIsRefusedByName(t *testing.T) {
	for field, name := range map[string]string{
		`"allow_internet_access":false`:                   "allow_internet_access",
		`"autoPause":true`:                                "autoPause",
		`"autoResume":{"enabled":true}`:                   "autoResume.enabled",
		`"network":{"denyOut":["0.0.0.0/0"]}`:             "network.denyOut",
		`"network":{"allowOut":["8.8.8.8"],"denyOut":[]}`: "network.allowOut",
		`"network":{"maskRequestHost":"x:${PORT}"}`:       "network.maskRequestHost",
		`"network":{"httpsPorts":[443]}`:                  "network.httpsPorts",
		`"network":{"rules":{"*.x.com":[{}]}}`:            "network.rules",
		`"network":{"later":1}`:                           "network.later",
		`"network":{"la\"<b>":1}`:                         "network.…",
		`"network":{"allowPublicTraffic":"no"}`:           "network.allowPublicTraffic",
		`"network":["x"]`:                                 "network",
		`"mcp":{"browserbase":{"apiKey":"k"}}`:            "mcp",
		`"mcp":{"duckduckgo":{}}`:                         "mcp",
		`"iam":{"tokens":{"aws":{"audience":"sts"}}}`:     "iam",
		`"volumeMounts":[{"name":"v","path":"/v"}]`:       "volumeMounts",
		`"m\u0063p":{"a":1}`:                              "mcp",
	} {
		g := newRig(t)
		r := g.send(t, "POST", "/v2/sandboxes", unary, `{"templateID":"base",`+field+`}`)
		code, message := r.e2b(t)
		if code != 400 || !strings.HasPrefix(message, name+" is not offered by this deployment: ") || len(message) < len(name)+50 || g.upstreamHits.Load() != 0 {
			t.Errorf("%s: %d %s", field, r.status, r.body)
		}
	}
}

// ROCK's reader of booleans takes "no", 0 and "off" for false: a closed network that is
// asked for in such a way must not be an open one.
func TestWhatIsTrueOrFalseIsSaidInOneWay(t *testing.T) {
	for field, name := range map[string]string{
		`"allow_internet_access":"false"`: "allow_internet_access",
		`"allow_internet_access":0`:       "allow_internet_access",
		`"allow_internet_access":0.0`:     "allow_internet_access",
		`"allow_internet_access":"off"`:   "allow_internet_access",
		`"autoPause":"true"`:              "autoPause",
		`"autoPause":1`:                   "autoPause",
		`"autoResume":{"enabled":"yes"}`:  "autoResume.enabled",
	} {
		for _, resumes := range []bool{false, true} {
			got, err := translateCreate([]byte(`{"templateID":"base",`+field+`}`), createRules{resumes: resumes})
			if err == nil || err.Error() != name+" must be true or false" {
				t.Errorf("%s: %s, %v", field, got.body, err)
			}
		}
	}
	// Whichever of two counts.
	if got, err := translateCreate([]byte(`{"autoResume":{"enabled":true,"enabled":false}}`), openRules); err == nil {
		t.Errorf("%s", got.body)
	}
}

// Two readers could read it in two ways.
func TestAFieldIsGivenOnce(t *testing.T) {
	for _, body := range []string{
		`{"metadata":{},"metadata":{}}`, `{"timeout":1,"timeout":2}`, `{"network":{},"network":{"allowPublicTraffic":false}}`,
		`{"autoPause":false,"autoP\u0061use":true}`, `{"x":1,"x":[]}`,
	} {
		if got, err := translateCreate([]byte(body), openRules); err == nil || !strings.HasSuffix(err.Error(), " is given twice") {
			t.Errorf("%s: %s, %v", body, got.body, err)
		}
	}
}

func TestWhatTheGatewayKeepsItselfIsNotedWithTheSandbox(t *testing.T) {
	for field, notes := range map[string]map[string]string{
		`"network":{"allowPublicTraffic":false}`:      {routing.MetadataTraffic: routing.TrafficPrivate},
		`"autoPause":true,"autoPauseMemory":true`:     {routing.MetadataOnTimeout: routing.OnTimeoutPause},
		`"autoPause":true,"network":{"denyOut":null}`: {routing.MetadataOnTimeout: routing.OnTimeoutPause},
		`"autoPause":false`:                           {},
	} {
		got, err := translateCreate([]byte(`{"templateID":"base",`+field+`}`), createRules{resumes: true})
		var sent struct {
			Metadata map[string]string
			Network  json.RawMessage
		}
		if err != nil || json.Unmarshal(got.body, &sent) != nil || !reflect.DeepEqual(sent.Metadata, notes) || sent.Network != nil {
			t.Errorf("%s: %s, %v", field, got.body, err)
		}
		if got.private != (notes[routing.MetadataTraffic] != "") {
			t.Errorf("%s: private is %v", field, got.private)
		}
	}
}

func FuzzTranslateCreate(f *testing.F) {
	for _, body := range []string{
		`{"templateID":"base"}`, ` {"metadata" : {"a":"{"}, "x":[1]} `, `{"metadat\u0061":{"e2b-gateway\/owner":"x"}}`,
		`{"network":{"allowPublicTraffic":false,"denyOut":[]},"autoPause":true,"autoPauseMemory":true}`,
		`{"mcp":{},"iam":{"tokens":{}},"volumeMounts":[],"autoResume":{"enabled":false},"later":{"a":[{}]}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := translateCreate(body, createRules{owner: alices, lifetime: time.Minute, resumes: true})
		if err != nil {
			return
		}
		// As ROCK reads it.
		var sent struct {
			Metadata map[string]string
		}
		fields, was := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		if json.Unmarshal(got.body, &fields) != nil || json.Unmarshal(fields["metadata"], &sent.Metadata) != nil || json.Unmarshal(body, &was) != nil {
			t.Fatalf("%q became %q", body, got.body)
		}
		if sent.Metadata[routing.MetadataOwner] != alices.Metadata() || sent.Metadata[chosenID] != got.id || fields["timeout"] == nil {
			t.Fatalf("%q became %q, %q", body, got.body, got.id)
		}
		if (sent.Metadata[routing.MetadataTraffic] == routing.TrafficPrivate) != got.private {
			t.Fatalf("%q became %q", body, got.body)
		}
		for name, value := range fields {
			if name != "metadata" && was[name] != nil && string(was[name]) != string(value) {
				t.Fatalf("%q became %q", body, got.body)
			}
			if name == "network" || name == "mcp" || name == "iam" || name == "volumeMounts" || name == "autoPauseMemory" {
				t.Fatalf("ROCK refuses %s: %q became %q", name, body, got.body)
			}
		}
	})
}
