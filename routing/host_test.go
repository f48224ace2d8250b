package routing

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func hostsOf(t testing.TB, names ...string) *Hosts {
	t.Helper()
	var domains []Domain
	for _, name := range names {
		d, err := ParseDomain(name)
		if err != nil {
			t.Fatal(err)
		}
		domains = append(domains, d)
	}
	return NewHosts(domains)
}

// Field reports E05 and E06.
func TestAPreviewHostNamesAPortOfASandbox(t *testing.T) {
	h := hostsOf(t, "box.test", "e2b.example.com:8443", "eu.box.test")
	for host, want := range map[string]Target{
		"49983-abc.box.test":                            {"abc", 49983},
		"8080-sandbox-1a2b3c4d.box.test":                {"sandbox-1a2b3c4d", 8080},
		"49983-abc-rock.box.test":                       {"abc-rock", 49983},
		"1-a.box.test":                                  {"a", 1},
		"65535-a.box.test":                              {"a", 65535},
		"80-a_b.box.test":                               {"a_b", 80},
		"3000-8080-x.box.test":                          {"8080-x", 3000},
		"49983-ABC.BOX.Test":                            {"abc", 49983},
		"49983-abc.box.test.":                           {"abc", 49983},
		"49983-abc.box.test:443":                        {"abc", 49983},
		"49983-abc.box.test.:443":                       {"abc", 49983},
		"49983-abc.box.test:":                           {"abc", 49983},
		"49983-abc.e2b.example.com":                     {"abc", 49983},
		"49983-abc.e2b.example.com:8443":                {"abc", 49983},
		"49983-abc.eu.box.test":                         {"abc", 49983},
		"3000-" + strings.Repeat("a", 58) + ".box.test": {strings.Repeat("a", 58), 3000},
	} {
		got, err := h.Read(host)
		if err != nil || got.Kind != PreviewHost || got.Target != want {
			t.Errorf("%s: %+v, %v", host, got, err)
		}
	}
	if got := h.DomainFor("49983-abc.eu.box.test"); got.Name != "eu.box.test" {
		t.Errorf("of %s", got)
	}
}

// Field report E06: however many domains there are, case does not matter.
func TestTwoHundredDomainsAreReadLikeOne(t *testing.T) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("d%d.test", i))
	}
	h := hostsOf(t, names...)
	for _, name := range names {
		if got, err := h.Read("80-X." + strings.ToUpper(name) + ".:8443"); err != nil || h.DomainFor("80-X."+strings.ToUpper(name)+".:8443").Name != name || got.Target != (Target{"x", 80}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestOnASharedHostPathsAndHeadersDecide(t *testing.T) {
	h := hostsOf(t, "box.test", "sandbox.box.test")
	for _, host := range []string{"box.test", "BOX.test:3002", "api.box.test", "sandbox.box.test.", "api.sandbox.box.test", "sandbox.sandbox.box.test"} {
		if got, err := h.Read(host); err != nil || got.Kind != SharedHost || got.Target != (Target{}) {
			t.Errorf("%s: %+v, %v", host, got, err)
		}
	}
	// Field report E01.
	for _, host := range []string{"", "127.0.0.1", "192.168.100.66:3002", "[fd00::5]:3002", "[::1]", "::1", "localhost:3002", "gateway", "gateway.test", "xbox.test", "test", "."} {
		if got, err := h.Read(host); err != nil || got != (Host{}) {
			t.Errorf("%s: %+v, %v", host, got, err)
		}
	}
}

// Field reports E07 and E08.
func TestNoOtherHostIsASandboxs(t *testing.T) {
	h := hostsOf(t, "box.test")
	for host, want := range map[string]error{
		"49983-abc.evil.test":          ErrForeignHost,
		"49983-abc.box.test.evil.test": ErrForeignHost,
		"49983-abc.xbox.test":          ErrForeignHost,
		"49983-abc":                    ErrForeignHost,
		"49983-abc.box.test:x":         ErrForeignHost,
		"49983-abc.box.test:1:2":       ErrForeignHost,
		"49983-abc.box.test..":         ErrForeignHost,
		"a.49983-abc.box.test":         ErrForeignHost,
		"49983-a.b.box.test":           ErrForeignHost,
		"www.box.test":                 ErrForeignHost,
		"abcd-abc.box.test":            ErrForeignHost,
		"a@49983-abc.box.test":         ErrForeignHost,
		"-abc.box.test":                ErrForeignHost,
		"+80-abc.box.test":             ErrForeignHost,
		" 80-abc.box.test":             ErrForeignHost,
		".box.test":                    ErrForeignHost,
		"8080.box.test":                ErrInvalidHost,
		"0-abc.box.test":               ErrInvalidHost,
		"65536-abc.box.test":           ErrInvalidHost,
		"080-abc.box.test":             ErrInvalidHost,
		"1e3-abc.box.test":             ErrInvalidHost,
		"22-abc.box.test":              ErrForbiddenPort,
		"22555-abc.box.test":           ErrForbiddenPort,
		"80-.box.test":                 ErrInvalidSandboxID,
		"80--abc.box.test":             ErrInvalidSandboxID,
		"80-a%2fb.box.test":            ErrInvalidSandboxID,
		"80-a*.box.test":               ErrInvalidSandboxID,
		"80-é.box.test":                ErrInvalidSandboxID,
	} {
		if got, err := h.Read(host); !errors.Is(err, want) || got.Kind == PreviewHost {
			t.Errorf("%s: %+v, %v, want %v", host, got, err, want)
		}
	}
}

func TestWithoutDomainsNoHostMeansAnything(t *testing.T) {
	var h *Hosts
	for _, host := range []string{"49983-abc.box.test", "box.test", ""} {
		if got, err := h.Read(host); err != nil || got != (Host{}) {
			t.Errorf("%s: %+v, %v", host, got, err)
		}
	}
	if NewHosts(nil) != nil || h.DomainFor("box.test") != (Domain{}) {
		t.Error("there is a domain")
	}
}

// Field report D14.
func TestAClientIsToldTheDomainItCameBy(t *testing.T) {
	h := hostsOf(t, "one.test", "two.test:8443", "two.test:9443", "x.one.test")
	for host, want := range map[string]string{
		"api.one.test": "one.test", "49983-a.one.test": "one.test", "api.two.test:9443": "two.test:9443", "API.TWO.TEST:8443": "two.test:8443",
		"two.test": "two.test:8443", "api.x.one.test": "x.one.test", "127.0.0.1:3002": "one.test", "": "one.test", "what.ever.two.test.": "two.test:8443",
	} {
		if got := h.DomainFor(host).String(); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

// Field report E03.
func TestHeadersAndHostMustAgree(t *testing.T) {
	h := hostsOf(t, "box.test")
	host, err := h.Read("3000-abc.box.test")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		ids, ports []string
		want       string
	}{
		{nil, nil, "abc"},
		{[]string{"abc"}, []string{"3000"}, "abc"},
		{[]string{"aBc"}, []string{"3000"}, "aBc"}, // the header knows the case
		{[]string{"abc"}, nil, "abc"},
		{nil, []string{"3000"}, "abc"},
		{[]string{"abcd"}, []string{"3000"}, ""},
		{[]string{"abc"}, []string{"49983"}, ""},
		{[]string{"abc"}, []string{"03000"}, ""},
		{[]string{"abc", "abc"}, nil, ""},
		{[]string{"abc,abc"}, nil, ""},
		{[]string{""}, nil, ""},
		{nil, []string{""}, ""},
		{nil, []string{"3000", "3000"}, ""},
		{nil, []string{"3000, 3000"}, ""},
		{nil, []string{"22"}, ""},
	} {
		header := http.Header{}
		if tc.ids != nil {
			header[HeaderSandboxID] = tc.ids
		}
		if tc.ports != nil {
			header[HeaderSandboxPort] = tc.ports
		}
		got, err := TargetOf(host, header)
		if tc.want == "" && !errors.Is(err, ErrOtherTarget) || tc.want != "" && (err != nil || got != Target{tc.want, 3000}) {
			t.Errorf("%q %q: %+v, %v", tc.ids, tc.ports, got, err)
		}
	}
}

func TestOnlyWholeHeadersAskForAnApp(t *testing.T) {
	for _, tc := range []struct {
		id, port string
		want     bool
	}{
		{"a", "8080", true}, {"a", "49983", false}, {"a", "22", false}, {"a", "0", false}, {"a", "049983", false}, {"a", "", false}, {"", "8080", false}, {"a b", "8080", false},
	} {
		if got := AsksForApp(http.Header{HeaderSandboxID: {tc.id}, HeaderSandboxPort: {tc.port}}); got != tc.want {
			t.Errorf("%q %q: %v", tc.id, tc.port, got)
		}
	}
	if AsksForApp(http.Header{HeaderSandboxPort: {"8080"}}) || AsksForApp(http.Header{HeaderSandboxID: {"a"}, HeaderSandboxPort: {"8080", "8081"}}) || AsksForApp(nil) {
		t.Error("half a target asks for an app")
	}
}

func TestAnOldIDIsReadWithoutTheClientIDOnly(t *testing.T) {
	for id, want := range map[string]string{"abc-rock": "abc", "a-rock-rock": "a-rock", "abc": "", "abc-rocks": "", "-rock": "", "abcrock": "", "rock": "", "abc-ROCK": ""} {
		got, ok := Target{id, 80}.WithoutClientID()
		if ok != (want != "") || ok && got != (Target{want, 80}) {
			t.Errorf("%s: %+v, %v", id, got, ok)
		}
	}
}

func TestReadingAHostAllocatesNothing(t *testing.T) {
	h := hostsOf(t, "box.test", "eu.box.test")
	header := http.Header{HeaderSandboxID: {"abc"}, HeaderSandboxPort: {"3000"}}
	if n := testing.AllocsPerRun(100, func() {
		host, err := h.Read("3000-abc.eu.box.test:8443")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := TargetOf(host, header); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzHost: whatever a host is, it names a sandbox only in the one shape, and the
// sandbox that it names is written out in it.
func FuzzHost(f *testing.F) {
	for _, host := range []string{"49983-abc.box.test", "22-a.box.test:1", "a.80-x.box.test", "80-x.eu.box.test.", "api.box.test", "[::1]:80", "80-x.evil.test", "..box.test", "box.test:", ""} {
		f.Add(host)
	}
	h := hostsOf(f, "box.test", "eu.box.test")
	f.Fuzz(func(t *testing.T, host string) {
		got, err := h.Read(host)
		if err != nil && got.Kind != OtherHost || got.Kind == OtherHost && got.Target != (Target{}) {
			t.Fatalf("%q: %+v, %v", host, got, err)
		}
		if got.Kind != PreviewHost {
			return
		}
		label := fmt.Sprintf("%d-%s.%s", got.Target.Port, got.Target.SandboxID, h.DomainFor(host).Name)
		rest, ok := strings.CutPrefix(strings.ToLower(host), label)
		if !ok || strings.Trim(rest, ".:0123456789") != "" || !ValidSandboxID(got.Target.SandboxID) || forbidden(got.Target.Port) || strings.Contains(got.Target.SandboxID, ".") {
			t.Fatalf("%q: %+v", host, got)
		}
	})
}
