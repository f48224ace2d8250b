package routing

import (
	"errors"
	"fmt"
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

// Field report M13.
func TestNoNetworkIsWideEnoughForSpecialAddresses(t *testing.T) {
	all := prefixes("0.0.0.0/0", "::/0")
	own := netip.MustParseAddr("10.9.9.9")
	for _, tc := range []struct {
		allow []netip.Prefix
		host  string
		may   bool
	}{
		{all, "10.1.2.3", true},
		{all, "fd00::7", true},
		{all, "0.0.0.0", false},
		{all, "0.1.2.3", false},
		{all, "127.0.0.1", false},
		{all, "127.9.9.9", false},
		{all, "169.254.169.254", false},
		{all, "100.100.100.200", false},
		{all, "224.0.0.1", false},
		{all, "255.255.255.255", false},
		{all, "::", false},
		{all, "::1", false},
		{all, "fe80::1", false},
		{all, "fe80::1%eth0", false},
		{all, "ff02::1", false},
		{all, "fd00:ec2::254", false},
		{all, "::ffff:127.0.0.1", false},
		{all, "::ffff:169.254.169.254", false},
		{all, "::7f00:1", false},
		{all, "64:ff9b::7f00:1", false},
		{all, "2002:7f00:1::", false},
		{prefixes("100.64.0.0/10"), "100.100.100.200", false},
		{prefixes("100.64.0.0/10"), "100.100.100.201", true},
		{prefixes("127.0.0.0/8"), "127.0.0.1", true},
		{prefixes("0.0.0.0/0", "127.0.0.2/32"), "127.0.0.2", true},
		{prefixes("0.0.0.0/0", "127.0.0.2/32"), "127.0.0.1", false},
		{prefixes("126.0.0.0/7"), "127.0.0.1", false},
		{prefixes("::1/128"), "::1", true},
		{all, "10.9.9.9", false},
		{all, "::ffff:10.9.9.9", false},
		{prefixes("10.9.9.8/31"), "10.9.9.9", false},
		{prefixes("10.0.0.0/8", "10.9.9.9/32"), "10.9.9.9", true},
	} {
		c := &Cluster{Mode: ModeDirect, AllowedHosts: tc.allow, DialUnmapped: true, Own: func(a netip.Addr) bool { return a == own }}
		got, err := c.DirectAddress(&Route{Host: netip.MustParseAddr(tc.host)}, 8080)
		if (err == nil) != tc.may || err != nil && !errors.Is(err, ErrNoAddress) {
			t.Errorf("%v, %s: %q, %v", tc.allow, tc.host, got, err)
		}
	}
}

func TestTheMachinesOwnAddressesAreKnown(t *testing.T) {
	var o ownAddresses
	if !o.has(netip.MustParseAddr("127.0.0.1")) || o.has(netip.MustParseAddr("192.0.2.1")) {
		t.Errorf("known: %v", o.known.Load().addresses)
	}
}

// Field reports E08 and E14.
func TestPortsThatAreNotExposedAreNotDialled(t *testing.T) {
	r := &Route{Host: netip.MustParseAddr("10.0.0.5"), Ports: map[uint16]uint16{8080: 22555, 8081: 22, 8082: 31001}}
	for _, tc := range []struct {
		ports []PortRange
		port  uint16
		may   bool
	}{
		{nil, 9000, true},
		{nil, 22, false},
		{nil, RockletPort, false},
		{nil, 8080, false},
		{nil, 8081, false},
		{nil, 8082, true},
		{[]PortRange{{1, 65535}}, 22, false},
		{[]PortRange{{1, 65535}}, RockletPort, false},
		{[]PortRange{{3000, 3000}, {8000, 8999}}, 3000, true},
		{[]PortRange{{3000, 3000}, {8000, 8999}}, 8999, true},
		{[]PortRange{{3000, 3000}, {8000, 8999}}, 9000, false},
		{[]PortRange{{3000, 3000}}, EnvdPort, true},
	} {
		c := &Cluster{Mode: ModeDirect, AllowedHosts: prefixes("10.0.0.0/8"), DialUnmapped: true, Ports: tc.ports, Own: func(netip.Addr) bool { return false }}
		got, err := c.DirectAddress(r, tc.port)
		if (err == nil) != tc.may || err != nil && !errors.Is(err, ErrPortNotExposed) {
			t.Errorf("%v, %d: %q, %v", tc.ports, tc.port, got, err)
		}
	}
}

func FuzzParsePortRange(f *testing.F) {
	for _, s := range []string{"80", "80-90", "90-80", "80-", "-80", "80-90-100", "080", "22"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParsePortRange(s)
		if err != nil && r != (PortRange{}) {
			t.Errorf("%q: %v and %v", s, r, err)
		}
		if err == nil && (r.First == 0 || r.Last < r.First || s != fmt.Sprint(r.First) && s != fmt.Sprintf("%d-%d", r.First, r.Last)) {
			t.Errorf("%q: %v", s, r)
		}
	})
}
