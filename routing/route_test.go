package routing

import (
	"regexp"
	"testing"
)

func TestStateNames(t *testing.T) {
	for state, want := range map[State]string{
		StateUnknown: "unknown", StateStarting: "starting", StateRunning: "running",
		StatePaused: "paused", StateDeleted: "deleted", State(200): "unknown",
	} {
		if got := state.String(); got != want {
			t.Errorf("State(%d).String() = %q, want %q", state, got, want)
		}
	}
}

// Field report F05: the next life at the same address has another name.
func TestLifecycleOfTellsLivesApart(t *testing.T) {
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"2026-08-21T14:12:44+08:00", "10.20.30.41"},
		{"2026-08-21T14:12:45+08:00", "10.20.30.41"},
		{"2026-08-21T14:12:44+08:00", "10.20.30.42"},
		{"2026-08-21T14:12:44+08:0010.20.30.41"},
		{"2026-08-21T14:12:44+08:00", "10.20.30.41", ""},
		{"ab", "c"}, {"a", "bc"}, {"", ""}, {""}, {},
	} {
		name := LifecycleOf(parts...)
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q have the same name %s", parts, other, name)
		}
		seen[name] = parts
		if again := LifecycleOf(parts...); again != name {
			t.Errorf("%q: %s, then %s", parts, name, again)
		}
	}
}

func FuzzLifecycleOf(f *testing.F) {
	f.Add("a", "b")
	f.Add("2026-08-21T14:12:44+08:00", "")
	form := regexp.MustCompile(`\A[0-9a-f]{16}\z`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if name := LifecycleOf(a, b); !form.MatchString(name) {
			t.Errorf("LifecycleOf(%q, %q) = %q", a, b, name)
		}
	})
}
