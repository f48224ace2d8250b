package handlers

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

var alices = noted("alice", alice)

func TestACreateNotesItsOwnerAndChangesNothingElse(t *testing.T) {
	note := `"e2b-gateway/owner":"` + alices.Metadata() + `","e2b-gateway/subject":"alice"`
	for in, want := range map[string]string{
		`{"metadata":{},"timeout":300}`:                            `{"metadata":{` + note + `},"timeout":300}`,
		` {"timeout": 1e2 , "metadata" : { "a" : "b" } ,"x":[1] }`: ` {"timeout": 1e2 , "metadata" : { "a" : "b",` + note + ` } ,"x":[1] }`,
		`{"timeout":1,"m\u0065tadata":{"\u00e4":"\ud83d\ude00"}}`:  `{"timeout":1,"m\u0065tadata":{"\u00e4":"\ud83d\ude00",` + note + `}}`,
		`{"timeout":1,"metadata":{"other/owner":"x"}}`:             `{"timeout":1,"metadata":{"other/owner":"x",` + note + `}}`,
		`{"timeout":1}`: `{"timeout":1,"metadata":{` + note + `}}`,
	} {
		got, err := translateCreate([]byte(in), createRules{owner: alices})
		if err != nil || string(got.body) != want || got.id != "" {
			t.Errorf("%s became\n%s, %q, %v", in, got.body, got.id, err)
		}
	}
}

func TestACreateThatCouldBeReadInTwoWaysIsRefused(t *testing.T) {
	for body, field := range map[string]string{
		`{"metadata":{"e2b-gateway/owner":"bob"}}`:                          "metadata",
		`{"metadata":{"e2b-gateway\/owner":"bob"}}`:                         "metadata",
		`{"metadata":{"\u0065\u0032b-gateway/owner":"bob"}}`:                "metadata",
		`{"metadata":{"E2B-Gateway/Owner":"bob"}}`:                          "metadata",
		`{"metadata":{"e2b-gateway/other":"bob"}}`:                          "metadata",
		`{"metadata":{"e2b.agents.kruise.io/sandbox-i\u0070":"10.0.0.9"}}`:  "metadata",
		`{"metadata":{"a":"1","a":"2"}}`:                                    "metadata",
		`{"metadata":{"ap-sandbox-id":"a","ap-sandbox-i\u0064":"b"}}`:       "metadata",
		`{"metadata":{},"metadata":{}}`:                                     "metadata",
		`{"metadata":{},"metadat\u0061":{"e2b-gateway/owner":"bob"}}`:       "metadata",
		`{"metadata":null}`:                                                 "metadata",
		`{"metadata":[]}`:                                                   "metadata",
		`{"metadata":"x"}`:                                                  "metadata",
		`{"metadata":{"a":1}}`:                                              "metadata",
		`{"metadata":{"a":null}}`:                                           "metadata",
		`{"metadata":{"a":{"b":"c"}}}`:                                      "metadata",
		`{"metadata":{"ap-sandbox-id":"../x"}}`:                             "ap-sandbox-id",
		`{"metadata":{"ap-sandbox-id":""}}`:                                 "ap-sandbox-id",
		`{"metadata":{"ap-sandbox-id":"` + strings.Repeat("a", 254) + `"}}`: "ap-sandbox-id",
		`[]`:                               "object",
		`{`:                                "object",
		"\xef\xbb\xbf" + `{"metadata":{}}`: "object",
	} {
		d := newDesk(t)
		r := d.ask(alice, "POST", "/v2/sandboxes", body)
		if code, message := r.e2b(t); code != 400 || !strings.Contains(message, field) || len(d.took()) != 0 {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
}

// Contract checklist 24: every SDK's create, with its key.
func TestTheNewSandboxIsTheCallers(t *testing.T) {
	d := newDesk(t)
	d.rock = answerWith(201, unary, `{"sandboxID":"new","envdVersion":"0.1.0","clientID":"rock","templateID":"base"}`)
	for _, key := range []string{alice, alicesOther, bob} {
		r := d.ask(key, "POST", "/v2/sandboxes", `{"templateID":"base"}`)
		sent := d.took()
		if r.status != 201 || len(sent) != 1 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		var body struct{ Metadata map[string]string }
		if err := json.Unmarshal([]byte(sent[0].body), &body); err != nil {
			t.Fatal(err)
		}
		holder := d.keys.keys[auth.DigestOf(key)]
		if got := routing.ParseOwner(body.Metadata[routing.MetadataOwner]); got != noted(holder.Subject, key) {
			t.Errorf("%s: %s", key, sent[0].body)
		}
	}
}

func TestAnIdThatIsSomebodyElsesCannotBeChosen(t *testing.T) {
	d := newDesk(t)
	d.access.AllowUnowned = true
	d.rock = answerWith(201, unary, `{"sandboxID":"x"}`)
	d.records.set("deleted", routing.StateDeleted, noted("bob", bob))
	d.records.set("stopped", routing.StateStopped, routing.Owner{})
	create := func(key, id string) int {
		return d.ask(key, "POST", "/sandboxes", `{"templateID":"base","metadata":{"ap-sandbox-id":"`+id+`"}}`).status
	}
	for _, tc := range []struct {
		key, id string
		want    int
	}{
		{alice, "free", 201},
		{alice, "deleted", 201},
		{alice, "alices", 201}, // ROCK says what there is to say
		{alice, "bobs", 400},
		{alice, "nobodys", 400},
		{root, "bobs", 400},
		{alice, "stopped", 503},
	} {
		if got := create(tc.key, tc.id); got != tc.want || len(d.took()) != map[bool]int{true: 1}[tc.want == 201] {
			t.Errorf("%s as %s: %d", tc.id, tc.key, got)
		}
	}
	// What is remembered of an id does not count.
	d.ask(alice, "GET", "/sandboxes/late", "")
	d.records.set("late", routing.StateRunning, noted("bob", bob))
	if got := create(alice, "late"); got != 400 {
		t.Errorf("taken a moment ago: %d", got)
	}
	d.records.fail(errors.New("down"))
	if got := create(alice, "free"); got != 503 {
		t.Errorf("nobody knows: %d", got)
	}
}

// Two look at a free id at the same moment. ROCK would let both have it.
func TestAnIdThatSomebodyIsJustGettingCannotBeChosen(t *testing.T) {
	d := newDesk(t)
	arrived, answer := make(chan struct{}), make(chan struct{})
	d.rock = func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-answer
		answerWith(201, unary, `{"sandboxID":"x"}`)(w, r)
	}
	create := func(key, id string) int {
		return d.ask(key, "POST", "/sandboxes", `{"templateID":"base","metadata":{"ap-sandbox-id":"`+id+`"}}`).status
	}
	statuses := make(chan int, 3)
	go func() { statuses <- create(alice, "free") }()
	<-arrived
	if got := create(bob, "free"); got != 400 {
		t.Errorf("somebody else: %d", got)
	}
	go func() { statuses <- create(alicesOther, "free") }() // ROCK says what there is to say
	<-arrived
	go func() { statuses <- create(bob, "other") }()
	<-arrived
	close(answer)
	for range 3 {
		if got := <-statuses; got != 201 {
			t.Errorf("%d", got)
		}
	}
	go func() { <-arrived }()
	if got := create(bob, "free"); got != 201 {
		t.Errorf("once that is over: %d", got)
	}
}
