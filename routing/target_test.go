package routing

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
)

func TestParseTarget(t *testing.T) {
	const none = "\x00absent"
	header := func(name string, values ...string) (h http.Header) {
		h = http.Header{HeaderSandboxID: {"sbx-1"}, HeaderSandboxPort: {"49983"}}
		if len(values) == 1 && values[0] == none {
			h.Del(name)
		} else {
			h[name] = values
		}
		return h
	}
	for name, test := range map[string]struct {
		header http.Header
		want   error
	}{
		"both":             {header(HeaderSandboxID, "sbx-1"), nil},
		"no id":            {header(HeaderSandboxID, none), ErrNoSandboxID},
		"empty id":         {header(HeaderSandboxID, ""), ErrInvalidSandboxID},
		"id twice":         {header(HeaderSandboxID, "sbx-1", "sbx-2"), ErrManySandboxIDs},
		"same id twice":    {header(HeaderSandboxID, "sbx-1", "sbx-1"), ErrManySandboxIDs},
		"ids joined":       {header(HeaderSandboxID, "sbx-1, sbx-2"), ErrManySandboxIDs},
		"id with a space":  {header(HeaderSandboxID, "sbx-1 "), ErrInvalidSandboxID},
		"id not UTF-8":     {header(HeaderSandboxID, "\xff"), ErrInvalidSandboxID},
		"no port":          {header(HeaderSandboxPort, none), ErrNoSandboxPort}, // Field report E02
		"empty port":       {header(HeaderSandboxPort, ""), ErrInvalidSandboxPort},
		"port twice":       {header(HeaderSandboxPort, "80", "81"), ErrManySandboxPorts},
		"ports joined":     {header(HeaderSandboxPort, "80,80"), ErrManySandboxPorts},
		"port zero":        {header(HeaderSandboxPort, "0"), ErrInvalidSandboxPort}, // Field report E08
		"port too large":   {header(HeaderSandboxPort, "65536"), ErrInvalidSandboxPort},
		"port is a name":   {header(HeaderSandboxPort, "http"), ErrInvalidSandboxPort},
		"the shell's port": {header(HeaderSandboxPort, "22"), ErrForbiddenPort},
		"the agent's port": {header(HeaderSandboxPort, "22555"), ErrForbiddenPort},
		"port with a sign": {header(HeaderSandboxPort, "+80"), ErrInvalidSandboxPort},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTarget(test.header)
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if err == nil && got != (Target{"sbx-1", 49983}) || err != nil && got != (Target{}) {
				t.Fatalf("target %+v", got)
			}
		})
	}
}

func TestParsePort(t *testing.T) {
	for s, want := range map[string]uint16{"1": 1, "80": 80, "49983": 49983, "65535": 65535} {
		if got, ok := ParsePort(s); !ok || got != want {
			t.Errorf("ParsePort(%q) = %d, %v", s, got, ok)
		}
	}
	// Field report E08.
	for _, s := range []string{
		"", "0", "00", "080", "65536", "99999", "100000", "4294967376", "-1", "+1", " 1", "1 ", "1\n", "0x50", "1e3", "1_0", "٨٠", "8o",
	} {
		if got, ok := ParsePort(s); ok {
			t.Errorf("ParsePort(%q) = %d, want refusal", s, got)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	f.Add("sbx-1", "49983", "")
	f.Add("sbx-1,sbx-2", "80", "x")
	f.Add("", "0", "80")
	f.Add("sbx-1", "22", "")
	f.Fuzz(func(t *testing.T, id, port, more string) {
		h := http.Header{HeaderSandboxID: {id}, HeaderSandboxPort: {port}}
		got, err := ParseTarget(h)
		if err != nil {
			if got != (Target{}) {
				t.Errorf("target %+v beside error %v", got, err)
			}
			// One of the fixed texts, so that no value is ever repeated.
			switch err {
			case ErrNoSandboxID, ErrManySandboxIDs, ErrInvalidSandboxID, ErrNoSandboxPort, ErrManySandboxPorts, ErrInvalidSandboxPort, ErrForbiddenPort:
			default:
				t.Errorf("error %q", err)
			}
			return
		}
		if got.SandboxID != id || !ValidSandboxID(id) || got.Port == 0 || strconv.Itoa(int(got.Port)) != port {
			t.Errorf("ParseTarget(%q, %q) = %+v", id, port, got)
		}
		for _, name := range []string{HeaderSandboxID, HeaderSandboxPort} {
			twice := h.Clone()
			twice.Add(name, more)
			if got, err := ParseTarget(twice); err == nil {
				t.Errorf("%s sent twice: %+v", name, got)
			}
		}
	})
}
