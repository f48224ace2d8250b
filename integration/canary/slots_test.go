package canary

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// slots are the secrets of a test by the place they stand in.
type slots map[string][]string // name -> the forms that give the secret away

// put makes a secret for a place.
func (s slots) put(name string) string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	value := "canary" + hex.EncodeToString(b[:])
	s.add(name, value)
	return value
}

// add notes a secret that comes from elsewhere. Whoever can read it in base64,
// or with the front cut off, has it too.
func (s slots) add(name, value string) {
	forms := []string{
		value,
		url.QueryEscape(value),
		base64.StdEncoding.EncodeToString([]byte(value)),
		hex.EncodeToString([]byte(value)),
	}
	if len(value) >= 24 {
		forms = append(forms, value[len(value)-16:])
	}
	s[name] = append(s[name], forms...)
}

// in are the places whose secret is in a text, sorted.
func (s slots) in(text string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if slices.ContainsFunc(s[name], func(form string) bool { return strings.Contains(text, form) }) {
			names = append(names, name)
		}
	}
	return names
}

// absent fails the test for every line of an output that has a secret in it.
func (s slots) absent(t *testing.T, output, text string) {
	t.Helper()
	told := 0
	for line := range strings.Lines(text) {
		names := s.in(line)
		if len(names) == 0 {
			continue
		}
		if told++; told > 5 {
			t.Errorf("%s: more lines like these", output)
			return
		}
		t.Errorf("%s gives away %v: %.1500s", output, names, line)
	}
}

func TestASecretIsFoundInEveryForm(t *testing.T) {
	s := slots{}
	value := s.put("planted")
	s.put("other")
	for name, text := range map[string]string{
		"as it is":    "x" + value + "y",
		"its end":     "…" + value[10:],
		"in base64":   base64.StdEncoding.EncodeToString([]byte(value)),
		"hexadecimal": hex.EncodeToString([]byte(value)),
	} {
		if got := s.in(text); !slices.Equal(got, []string{"planted"}) {
			t.Errorf("%s: found %v", name, got)
		}
	}
	if got := s.in("nothing"); got != nil {
		t.Errorf("found %v in nothing", got)
	}
}
