package routing

import (
	"strings"
	"testing"
)

func TestAnOwnerIsReadAsItWasWritten(t *testing.T) {
	alice := Owner{Subject: "alice@example.com", Key: [32]byte{1, 2, 31: 9}}
	if got := ParseOwner(alice.Metadata()); got != alice {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsNoOwnerIsNobodys(t *testing.T) {
	digits := strings.Repeat("ab", 32)
	for _, value := range []string{
		"", " ", "alice", digits, " " + digits, "alice " + digits[1:], "alice " + digits + "0", "alice  " + digits,
		"alice bob " + digits, "alice\t" + digits, "al\x00ice " + digits, "\u00e4lice " + digits,
		"alice " + strings.Repeat("g", 64), strings.Repeat("a", 129) + " " + digits, "alice " + digits + " ",
	} {
		if got := ParseOwner(value); got != (Owner{}) {
			t.Errorf("%q: %+v", value, got)
		}
	}
}

func FuzzParseOwner(f *testing.F) {
	f.Add("alice " + strings.Repeat("ab", 32))
	f.Add("alice")
	f.Fuzz(func(t *testing.T, value string) {
		owner := ParseOwner(value)
		if owner == (Owner{}) {
			return
		}
		if !strings.EqualFold(owner.Metadata(), value) || ParseOwner(owner.Metadata()) != owner {
			t.Fatalf("%q is %q", value, owner.Metadata())
		}
	})
}
