package splice

import (
	"encoding/json"
	"reflect"
	"testing"
)

func parse(t *testing.T, raw string) *Node {
	t.Helper()
	n, ok := Parse([]byte(raw))
	if !ok {
		t.Fatalf("%s is refused", raw)
	}
	return n
}

func TestOnlyWhatIsChangedChanges(t *testing.T) {
	const raw = ` { "a" : 1.0e2 ,"b":{"x": [1 , "}"]},  "c":"\"]",	"a":null } `
	for name, tc := range map[string]struct {
		change func(*Node)
		want   string
	}{
		"nothing": {func(*Node) {}, raw},
		"same":    {func(n *Node) { n.Set(0, []byte("1.0e2")) }, raw},
		"set":     {func(n *Node) { n.Set(1, []byte("2")) }, ` { "a" : 1.0e2 ,"b":2,  "c":"\"]",	"a":null } `},
		"first":   {func(n *Node) { n.Remove(0) }, ` { "b":{"x": [1 , "}"]},  "c":"\"]",	"a":null } `},
		"last":    {func(n *Node) { n.Remove(n.Find("a")) }, ` { "a" : 1.0e2 ,"b":{"x": [1 , "}"]},  "c":"\"]" } `},
		"middle":  {func(n *Node) { n.Remove(1); n.Remove(2) }, ` { "a" : 1.0e2,	"a":null } `},
		"all": {func(n *Node) {
			for i := range n.Len() {
				n.Remove(i)
			}
			n.Add("z", []byte("1"))
		}, ` { "z":1 } `},
		"added": {func(n *Node) { n.Add("y", []byte("1")); n.Add("z", []byte("2")) },
			` { "a" : 1.0e2 ,"b":{"x": [1 , "}"]},  "c":"\"]",	"a":null,"y":1,"z":2 } `},
	} {
		n := parse(t, raw)
		tc.change(n)
		if got := string(n.Bytes()); got != tc.want {
			t.Errorf("%s:\n%s\n%s", name, got, tc.want)
		}
	}
	n := parse(t, "{}")
	n.Add("a", []byte("1"))
	if got := string(n.Bytes()); got != `{"a":1}` {
		t.Error(got)
	}
	list := parse(t, "[ 1, [2], -3 ]")
	list.Remove(1)
	if got := string(list.Bytes()); got != "[ 1, -3 ]" {
		t.Error(got)
	}
}

func TestNamesAreFoundInEverySpelling(t *testing.T) {
	n := parse(t, `{"m\u0065tadata":{"e2b-gateway\/owner":"x"}}`)
	child, ok := n.Child(n.Find("metadata"))
	if !ok || child.Find("e2b-gateway/owner") != 0 {
		t.Error("not found")
	}
}

func TestWhatHasNoItemsIsRefused(t *testing.T) {
	for _, raw := range []string{"", "1", `"x"`, "null", "{", "{} {}", "[1,]", "\xff"} {
		if _, ok := Parse([]byte(raw)); ok {
			t.Errorf("%q is taken apart", raw)
		}
	}
}

func FuzzSplice(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[]}}`), "b", uint8(1))
	f.Add([]byte(`[ {} , "\\\"" ]`), "", uint8(0))
	f.Fuzz(func(t *testing.T, raw []byte, name string, at uint8) {
		n, ok := Parse(raw)
		if !ok {
			return
		}
		if string(n.Bytes()) != string(raw) {
			t.Fatalf("unchanged, %q became %q", raw, n.Bytes())
		}
		var want any
		if json.Unmarshal(raw, &want) != nil {
			t.Fatal("it was taken apart, but is no JSON")
		}
		if list, ok := want.([]any); ok {
			if len(list) != n.Len() {
				t.Fatalf("%q has %d elements", raw, n.Len())
			}
			if i := int(at); i < n.Len() {
				n.Remove(i)
				want = append(list[:i:i], list[i+1:]...)
			}
		} else {
			fields := want.(map[string]any)
			for i := range n.Len() {
				if _, ok := fields[n.Name(i)]; !ok {
					t.Fatalf("%q has no %q", raw, n.Name(i))
				}
				if n.Name(i) == name {
					n.Remove(i)
				}
			}
			delete(fields, name)
			n.Add("\x00new", []byte("[1]"))
			fields["\x00new"] = []any{1.0}
		}
		var got any
		if err := json.Unmarshal(n.Bytes(), &got); err != nil || !reflect.DeepEqual(got, want) && !(len(n.items) == 1 && reflect.DeepEqual(got, []any{})) {
			t.Fatalf("%q became %q, %v", raw, n.Bytes(), err)
		}
	})
}
