package routing

import (
	"errors"
	"net/netip"
	"testing"
)

func TestDirectAddressStaysInsideTheAllowedNetworks(t *testing.T) {
	c := &Cluster{Mode: ModeDirect, AllowedHosts: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}
	ports := map[uint16]uint16{49983: 31001}
	for host, want := range map[string]string{
		"10.1.2.3":        "10.1.2.3:31001",
		"fd00::7":         "[fd00::7]:31001", // Field report E09
		"::ffff:10.1.2.3": "::ffff:10.1.2.3",
	} {
		got, err := c.DirectAddress(&Route{Host: netip.MustParseAddr(host), Ports: ports}, 49983)
		if host == "::ffff:10.1.2.3" {
			want = "[::ffff:10.1.2.3]:31001"
		}
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v", host, got, err)
		}
	}
	for _, host := range []string{"127.0.0.1", "169.254.169.254", "192.168.0.1", "::1", "::ffff:127.0.0.1"} {
		if got, err := c.DirectAddress(&Route{Host: netip.MustParseAddr(host), Ports: ports}, 49983); !errors.Is(err, ErrNoAddress) {
			t.Errorf("%s: got %q, %v, want ErrNoAddress", host, got, err)
		}
	}
	if _, err := c.DirectAddress(&Route{Ports: ports}, 49983); !errors.Is(err, ErrNoAddress) {
		t.Errorf("no host: %v", err)
	}
}

// Field report E14: on a shared host an unmapped port is somebody else's.
func TestDirectAddressDialsAnUnmappedPortOnlyWhenToldTo(t *testing.T) {
	c := &Cluster{Mode: ModeDirect, AllowedHosts: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	r := &Route{Host: netip.MustParseAddr("10.0.0.5"), Ports: map[uint16]uint16{8080: 31002}}
	if got, err := c.DirectAddress(r, 9000); !errors.Is(err, ErrPortNotExposed) {
		t.Errorf("got %q, %v, want ErrPortNotExposed", got, err)
	}
	c.DialUnmapped = true
	if got, err := c.DirectAddress(r, 9000); err != nil || got != "10.0.0.5:9000" {
		t.Errorf("got %q, %v", got, err)
	}
}
