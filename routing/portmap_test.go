package routing

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestPortsAreFoundFromBothSides(t *testing.T) {
	p := PortsOf(map[uint16]uint16{8080: 31003, 22: 31002, 65535: 1, 1: 65535, 9000: 31003})
	if got := p.String(); got != "1:65535 22:31002 8080:31003 9000:31003 65535:1 " || p.Len() != 5 {
		t.Errorf("%d ports: %s", p.Len(), got)
	}
	for inside, want := range map[uint16]uint16{1: 65535, 22: 31002, 8080: 31003, 65535: 1, 31002: 0, 0: 0} {
		if got, ok := p.Outside(inside); got != want || ok != (want != 0) {
			t.Errorf("%d is at %d, %v", inside, got, ok)
		}
	}
	for outside, want := range map[uint16]uint16{65535: 1, 31003: 8080, 1: 65535, 22: 0, 0: 0} {
		if got, ok := p.Inside(outside); got != want || ok != (want != 0) {
			t.Errorf("at %d is %d, %v", outside, got, ok)
		}
	}
}

func TestPortsAreWhatTheyWereMadeOf(t *testing.T) {
	for range 100 {
		want := map[uint16]uint16{}
		for range rand.IntN(40) {
			want[uint16(rand.Uint32())] = uint16(rand.Uint32())
		}
		if got := maps.Collect(PortsOf(want).All()); !maps.Equal(got, want) {
			t.Fatalf("%v became %v", want, got)
		}
	}
	if (Ports{}).Len() != 0 || PortsOf(nil).String() != "" {
		t.Error("none are some")
	}
}

// It reads what the standard library reads, faster.
func FuzzJSONString(f *testing.F) {
	for _, s := range []string{`"a"`, `""`, `"a\"b"`, `"\u00e4"`, `"ä"`, "\"\xff\"", "\"\x7f\"", `1`, `null`, `{}`, `["a"]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		if !json.Valid([]byte(field)) || strings.TrimSpace(field) != field {
			return
		}
		var want string
		isString := field[0] == '"' && json.Unmarshal([]byte(field), &want) == nil
		if got, ok := JSONString(json.RawMessage(field)); got != want || ok != isString {
			t.Fatalf("%q: %q, %v; want %q, %v", field, got, ok, want, isString)
		}
	})
}
