package auth

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestARecordSaysWhatAKeyIs(t *testing.T) {
	digest := DigestOf("e2b_0a")
	var r Record
	if err := UnmarshalStrict([]byte(`{"digest":"`+strings.ToUpper(digest.String())+`","subject":"alice","scopes":["data","admin"],
		"tenant":{"user_id":"u","namespace":"n","experiment_id":"e","cluster":"c"},"expires":"2027-01-31T00:00:00Z","disabled":true,
		"limits":{"streams":1,"requests":0.5,"creates":-1,"body":1024},"note":"his laptop"}`), &r); err != nil {
		t.Fatal(err)
	}
	got, err := r.Key()
	if err != nil {
		t.Fatal(err)
	}
	want := Key{
		Digest: digest, Subject: "alice", Scopes: ScopeData | ScopeAdmin, Tenant: Tenant{"u", "n", "e", "c"},
		Expires: time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC), Disabled: true, Limits: Limits{1, 0.5, -1, 1024},
	}
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
}

func TestAKeyThatNamesNoScopeHasTheUsualOnes(t *testing.T) {
	r := Record{Digest: DigestOf("x").String(), Subject: "alice"}
	if k, err := r.Key(); err != nil || k.Scopes != DefaultScopes {
		t.Errorf("got %v, %v", k, err)
	}
}

func TestWhatARecordCannotMeanIsRefused(t *testing.T) {
	digest := DigestOf("x").String()
	for name, test := range map[string]struct{ record, problem string }{
		"not JSON":           {`{`, "not complete"},
		"two values":         {`{} {}`, "follows"},
		"an unknown field":   {`{"digest":"` + digest + `","subject":"a","expire":"2027-01-31T00:00:00Z"}`, "unknown field"},
		"no digest":          {`{"subject":"a"}`, "64 hexadecimal"},
		"a key":              {`{"digest":"e2b_secret","subject":"a"}`, "keys hash"},
		"no subject":         {`{"digest":"` + digest + `"}`, "subject"},
		"an odd subject":     {`{"digest":"` + digest + `","subject":"a b"}`, "subject"},
		"an unknown scope":   {`{"digest":"` + digest + `","subject":"a","scopes":["root"]}`, "scopes"},
		"no scopes":          {`{"digest":"` + digest + `","subject":"a","scopes":[]}`, "empty"},
		"no time":            {`{"digest":"` + digest + `","subject":"a","expires":"e2b_secret"}`, "RFC 3339"},
		"a line end":         {`{"digest":"` + digest + `","subject":"a","tenant":{"user_id":"a\r\nX-Cluster: b"}}`, "user_id"},
		"a long tenant":      {`{"digest":"` + digest + `","subject":"a","tenant":{"cluster":"` + strings.Repeat("c", 257) + `"}}`, "cluster"},
		"a number as a text": {`{"digest":"` + digest + `","subject":"a","limits":{"streams":"e2b_secret"}}`, "streams"},
		"a secret as a name": {`{"e2b_secret":1}`, "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			var r Record
			err := UnmarshalStrict([]byte(test.record), &r)
			if err == nil {
				_, err = r.Key()
			}
			if err == nil || !strings.Contains(err.Error(), test.problem) || strings.Contains(err.Error(), "e2b_secret") {
				t.Errorf("want an error with %q, got %v", test.problem, err)
			}
		})
	}
}

func TestTheRecordOfAnotherKeyIsNotTaken(t *testing.T) {
	r := Record{Digest: DigestOf("other").String(), Subject: "alice"}
	if k, err := r.KeyOf(DigestOf("x")); err == nil {
		t.Errorf("taken as %+v", k)
	}
}

func TestATableNamesTheRecordThatIsWrong(t *testing.T) {
	good := Record{Digest: DigestOf("x").String(), Subject: "alice"}
	if _, err := NewTable([]Record{good, {Digest: "12", Subject: "bob"}}); err == nil || !strings.Contains(err.Error(), "key 2 (of bob)") {
		t.Errorf("got %v", err)
	}
	if _, err := NewTable([]Record{good, {Digest: strings.ToUpper(good.Digest), Subject: "bob"}}); err == nil || !strings.Contains(err.Error(), "another key, of alice") {
		t.Errorf("got %v", err)
	}
}

// FuzzRecord: what is taken survives being written down again.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"digest":"` + DigestOf("x").String() + `","subject":"alice","scopes":["data"],"expires":"2027-01-31T00:00:00Z","limits":{"requests":1e3}}`))
	f.Add([]byte(`{"subject":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Record
		if UnmarshalStrict(b, &r) != nil {
			return
		}
		k, err := r.Key()
		if err != nil {
			return
		}
		again := k.Record()
		text, err := json.Marshal(again)
		if err != nil {
			if year := again.Expires.Year(); year >= 0 && year <= 9999 {
				t.Fatal(err)
			}
			return // RFC 3339 has no such year
		}
		var r2 Record
		if err := UnmarshalStrict(text, &r2); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		k2, err := r2.Key()
		if err != nil || !k2.Expires.Equal(k.Expires) {
			t.Fatalf("%s: %v", text, err)
		}
		k2.Expires = k.Expires
		if *k2 != *k {
			t.Errorf("%+v became %+v", k, k2)
		}
	})
}
