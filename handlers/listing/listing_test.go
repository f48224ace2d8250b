package listing

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// Contract 1.4: metadata is encoded three times by the SDKs, and once by people with curl.
func TestMetadataIsReadInEveryEncodingThatClientsUse(t *testing.T) {
	for raw, want := range map[string]map[string]string{
		"":                                       nil,
		"metadata=":                              nil,
		"metadata=a%252520b%3Dc%252526d%26k%3Dv": {"a b": "c&d", "k": "v"},
		"metadata=a%3Db":                         {"a": "b"},
		"metadata=a=b":                           {"a": "b"},
		"metadata=a%3Ab%2C+c+%3Ad%3Ae":           {"a": "b", "c": "d:e"},
		"metadata=a%3D":                          {"a": ""},
		"metadata=a%3Db%3Dc":                     {"a": "b=c"},
		"metadata=a%3D100%25":                    {"a": "100%"},
		"metadata=a%3D%25252541":                 {"a": "%41"},
		"metadata=a%3D1%2B2":                     {"a": "1 2"},
		"metadata=a%3D1%25252B2":                 {"a": "1+2"},
		"metadata=%25C5%25BC%3D%25E6%259D%25B1":  {"ż": "東"},
		"metadata=a%3Db&unknown=x":               {"a": "b"},
	} {
		q, err := ParseQuery(raw)
		if err != nil || !maps.Equal(q.Metadata, want) {
			t.Errorf("%s: %q, %v", raw, q.Metadata, err)
		}
	}
	for raw, want := range map[string]error{
		"metadata=a": ErrMetadata, "metadata=%3Db": ErrMetadata, "metadata=a%3Db%26": ErrMetadata, "metadata=a%3Db%26a%3Db": ErrMetadata,
		"metadata=a%3D%25FF": ErrMetadata, "metadata=a%3Db&metadata=a%3Db": ErrTwice, "metadata=%": ErrQuery, "a;b": ErrQuery,
		"state=Running": ErrState, "state=running,dead": ErrState, "limit=-1": ErrLimit, "limit=1.5": ErrLimit, "limit=101": ErrLimit, "order=up": ErrOrder, "order=asc&order=asc": ErrTwice, "startedAfter=yesterday": ErrSince, "limit=+": ErrLimit,
	} {
		if _, err := ParseQuery(raw); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", raw, err, want)
		}
	}
}

// Whether ROCK undoes the SDKs' third encoding or not, it must read the same.
func TestWhatROCKIsAskedIsReadInOneWay(t *testing.T) {
	pairs := map[string]string{"a b": "c&d", "ż:": "東,京=", "k": "v+w", "e2b-gateway/subject": "alice@x.org", "100%": "x", "y": "%41", "empty": ""}
	sent, err := url.ParseQuery(RockFilter(pairs))
	if err != nil {
		t.Fatal(err)
	}
	form, err := url.ParseQuery(sent.Get("metadata"))
	if err != nil || len(form) != 4 {
		t.Fatalf("%v, %v", form, err)
	}
	for key, values := range form {
		again, err := url.PathUnescape(values[0])
		if values[0] != pairs[key] || err != nil || again != values[0] {
			t.Errorf("%q: %q, %v", key, values, err)
		}
	}
}

func TestAListIsWhatWasAskedFor(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 8, 21, 14, minute, 0, 0, time.UTC) }
	items := []Item{
		{SandboxID: "a", StartedAt: at(1), TemplateID: "img", Template: "base"}, {SandboxID: "b", StartedAt: at(2), TemplateID: "img"},
		{SandboxID: "c", StartedAt: at(2), TemplateID: "base"},
	}
	for raw, want := range map[string]string{
		"": "bca", "order=desc": "bca", "order=asc": "abc", "template=base": "ca", "template=img": "b",
		"startedAfter=2026-08-21T14%3A02%3A00%2B00%3A00": "bc", "startedAfter=2026-08-21T16%3A02%3A01%2B02%3A00": "", "order=asc&startedAfter=2020-01-01T00:00:00Z": "abc",
	} {
		q, err := ParseQuery(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		list := slices.DeleteFunc(slices.Clone(items), func(i Item) bool { return !q.Matches(&i) })
		slices.SortFunc(list, q.Order)
		got := ""
		for i, item := range list {
			got += item.SandboxID
			if i > 0 && (!q.Behind(After(&list[i-1]), &item) || q.Behind(After(&item), &list[i-1])) {
				t.Errorf("%s: %s is not behind the one before it", raw, item.SandboxID)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestARecordOfROCKBecomesAnItem(t *testing.T) {
	const record = `{"sandbox_id":"5b1f","state":"running","image":"python:3.11","metadata":{"job":"x","e2b-gateway/owner":"alice 00","e2b-gateway/subject":"alice","E2B-Gateway/later":"y"},` +
		`"host_ip":"10.0.0.1","cpus":1.5,"memory":"8.00g","disk":"50G","start_time":"2026-08-21T14:12:44+08:00","create_time":"2026-08-21T14:12:10+08:00","auto_stop_time":"2026-08-21T14:42:44+08:00"}`
	item, err := FromRecord([]byte(record))
	if err != nil || item.Note != "alice 00" || item.Subject != "alice" || item.Address != "10.0.0.1" {
		t.Fatalf("%+v, %v", item, err)
	}
	const want = `{"sandboxID":"5b1f","templateID":"python:3.11","clientID":"rock","startedAt":"2026-08-21T14:12:44+08:00","endAt":"2026-08-21T14:42:44+08:00",` +
		`"cpuCount":2,"memoryMB":8192,"diskSizeMB":51200,"state":"running","envdVersion":"0.3.0","metadata":{"job":"x"}}`
	if got, _ := json.Marshal(item); string(got) != want {
		t.Errorf("%s", got)
	}
	// What ROCK leaves out is nothing, and no end is a year away.
	item, err = FromRecord([]byte(`{"sandbox_id":"a","state":"running","create_time":"2026-08-21T14:12:10","metadata":null,"disk":null,"auto_stop_time":null,"cpus":null}`))
	begun := time.Date(2026, 8, 21, 14, 12, 10, 0, time.UTC)
	if err != nil || !item.StartedAt.Equal(begun) || !item.EndAt.Equal(begun.AddDate(1, 0, 0)) || item.Metadata == nil || item.DiskSizeMB != 0 {
		t.Errorf("%+v, %v", item, err)
	}
	for name, change := range map[string][2]string{
		"no id": {`"5b1f"`, `""`}, "an id that is none": {`"5b1f"`, `"../x"`}, "no start": {`_time":"2026-08-21T14:12`, `_time":"x`}, "no size": {`8.00g`, `plenty`},
		"less than nothing": {`8.00g`, `-1g`}, "too much": {`8.00g`, `9999999999t`}, "no size of disk": {`50G`, `G`}, "no number": {`1.5`, `"two"`}, "negative": {`1.5`, `-1`},
		"metadata of other things": {`"x"`, `1`}, "an end that is none": {`2026-08-21T14:42:44`, `soon`}, "long ago": {`2026-08-21T14:12`, `1026-08-21T14:12`},
	} {
		if item, err := FromRecord([]byte(strings.ReplaceAll(record, change[0], change[1]))); err == nil || errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: %+v", name, item)
		}
	}
	for _, state := range []string{"pending", "stopped", "archived", "dead", ""} {
		if _, err := FromRecord([]byte(strings.Replace(record, `"running"`, `"`+state+`"`, 1))); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%q: %v", state, err)
		}
	}
}

func TestSizesAreMebibytesRoundedUp(t *testing.T) {
	for text, want := range map[string]int{"": 0, "8.00g": 8192, "50G": 51200, "512m": 512, "1.5Gi": 1536, "2GB": 2048, "1k": 1, "1048577": 2, "0": 0, "1T": 1 << 20, "100 MiB": 100} {
		if got, err := mebibytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"g", "x", "NaNg", "Infg", "8gg", "8gib5", "1e99g", "0x"} {
		if got, err := mebibytes(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestATokenNamesItsPlace(t *testing.T) {
	q, _ := ParseQuery("metadata=a%3Db%26c%3Dd&state=running")
	place := Position{time.Date(2026, 8, 21, 14, 12, 44, 5, time.UTC), "sbx-1"}
	q.Token = q.Next(place, "alice", "")
	if got, err := q.Position("alice", ""); err != nil || got != place {
		t.Fatalf("%+v, %v", got, err)
	}
	same, _ := ParseQuery("limit=7&state=running&metadata=c%3Ad,a%3Ab&nextToken=" + q.Token)
	if got, err := same.Position("alice", ""); err != nil || got != place {
		t.Errorf("another order of the same: %+v, %v", got, err)
	}
	for name, try := range map[string]func() error{
		"another's":       func() error { _, err := q.Position("bob", ""); return err },
		"of a cluster":    func() error { _, err := q.Position("alice", "a"); return err },
		"shifted":         func() error { _, err := q.Position("", "alice"); return err },
		"short":           func() error { _, err := (&Query{Token: q.Token[:20]}).Position("alice", ""); return err },
		"padded":          func() error { _, err := (&Query{Token: q.Token + "="}).Position("alice", ""); return err },
		"another version": func() error { _, err := (&Query{Token: "B" + q.Token[1:]}).Position("alice", ""); return err },
	} {
		if err := try(); !errors.Is(err, ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheNewestIsFirst(t *testing.T) {
	at := func(second int, id string) *Item {
		return &Item{SandboxID: id, StartedAt: time.Date(2026, 8, 21, 14, 0, second, 0, time.FixedZone("", 8*60*60))}
	}
	here := Position{at(5, "").StartedAt.UTC(), "m"}
	for name, tc := range map[string]struct {
		item *Item
		want bool
	}{
		"older": {at(4, "a"), true}, "younger": {at(6, "z"), false}, "of the same moment, behind": {at(5, "n"), true}, "before": {at(5, "l"), false}, "itself": {at(5, "m"), false},
	} {
		if q := (Query{}); q.Behind(here, tc.item) != tc.want || !q.Behind(Position{}, tc.item) {
			t.Errorf("%s: %v", name, !tc.want)
		}
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("metadata=a%252520b%3Dc%252526d%26k%3Dv&state=running%2Cpaused&limit=10&nextToken=x")
	f.Add("metadata=a%3Ab%2Cc%3Ad&state=running&state=paused")
	q, _ := ParseQuery("")
	f.Add("nextToken=" + q.Next(Position{time.Unix(1e9, 0), "sbx-1"}, "alice"))
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := ParseQuery(raw)
		if err != nil {
			return
		}
		if q.Limit < 1 || q.Limit > MaxLimit || !q.Running && !q.Paused {
			t.Fatalf("%q: %+v", raw, q)
		}
		if again, err := ParseQuery(RockFilter(q.Metadata)); err == nil {
			for key, got := range again.Metadata {
				if got != q.Metadata[key] {
					t.Fatalf("%q: %q became %q", raw, q.Metadata[key], got)
				}
			}
		}
		if place, err := q.Position("alice"); err == nil && q.Token != "" {
			if q.Next(place, "alice") != q.Token || !routing.ValidSandboxID(place.SandboxID) {
				t.Fatalf("%q: two tokens for one place: %+v", raw, place)
			}
		}
	})
}

func FuzzItem(f *testing.F) {
	f.Add([]byte(`{"sandbox_id":"a","state":"running","cpus":1.5,"memory":"8.00g","disk":"50G","start_time":"2026-08-21T14:12:44+08:00","metadata":{"a":"b"}}`))
	f.Add([]byte(`{"sandboxID":"a","state":"running","cpuCount":2,"startedAt":"2026-08-21 14:12:44","endAt":"","metadata":{"e2b-gateway/x":"b"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, read := range []func([]byte) (Item, error){FromRecord, FromE2B} {
			item, err := read(raw)
			if err != nil {
				continue
			}
			body, err := json.Marshal(item)
			if err != nil || item.State != Running || !routing.ValidSandboxID(item.SandboxID) || item.CPUCount < 0 || item.MemoryMB < 0 || item.DiskSizeMB < 0 {
				t.Fatalf("%q became %s, %v", raw, body, err)
			}
			for name := range item.Metadata {
				if strings.HasPrefix(name, routing.MetadataPrefix) || name == routing.MetadataAddress {
					t.Fatalf("%q shows %q", raw, name)
				}
			}
			if _, err := url.ParseQuery(RockFilter(item.Metadata)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
