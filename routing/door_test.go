package routing

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
)

func TestASandboxIsDialledInsideTheAllowedNetworksOnly(t *testing.T) {
	c := &Cluster{Mode: ModeDirect, AllowedHosts: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}
	ports := map[uint16]uint16{49983: 31001}
	for host, want := range map[string]string{
		"10.1.2.3":        "10.1.2.3:31001",
		"fd00::7":         "[fd00::7]:31001", // Field report E09
		"::ffff:10.1.2.3": "::ffff:10.1.2.3",
	} {
		got, err := c.DoorTo(&Route{Host: netip.MustParseAddr(host), Ports: PortsOf(ports)}, 49983)
		if host == "::ffff:10.1.2.3" {
			want = "[::ffff:10.1.2.3]:31001"
		}
		if err != nil || got != (Door{Address: want}) {
			t.Errorf("%s: got %v, %v", host, got, err)
		}
	}
	for _, host := range []string{"127.0.0.1", "169.254.169.254", "192.168.0.1", "::1", "::ffff:127.0.0.1"} {
		if got, err := c.DoorTo(&Route{Host: netip.MustParseAddr(host), Ports: PortsOf(ports)}, 49983); !errors.Is(err, ErrNoAddress) {
			t.Errorf("%s: got %v, %v, want ErrNoAddress", host, got, err)
		}
	}
	if _, err := c.DoorTo(&Route{Ports: PortsOf(ports)}, 49983); !errors.Is(err, ErrNoAddress) {
		t.Errorf("no host: %v", err)
	}
}

// Field report E14: on a shared host an unmapped port is somebody else's.
func TestAPortThatIsNotMappedIsDialledOnlyWhenToldTo(t *testing.T) {
	mapped := map[uint16]uint16{8080: 31002, RockletPort: 31001}
	for _, tc := range []struct {
		name     string
		unmapped Unmapped
		ports    map[uint16]uint16
		port     uint16
		want     Door // zero: not exposed
	}{
		{"a mapped port", UnmappedTunnel, mapped, 8080, Door{Address: "10.0.0.5:31002"}},
		{"by default through the rocklet", UnmappedTunnel, mapped, 9000, Door{"10.0.0.5:31001", 9000}},
		{"envd's too", UnmappedTunnel, mapped, EnvdPort, Door{"10.0.0.5:31001", EnvdPort}},
		{"the first that the rocklet forwards to", UnmappedTunnel, mapped, 1024, Door{"10.0.0.5:31001", 1024}},
		{"below it", UnmappedTunnel, mapped, 1023, Door{}},
		{"a rocklet that is not mapped", UnmappedTunnel, map[uint16]uint16{8080: 31002}, 9000, Door{}},
		{"a rocklet that is the host's", UnmappedTunnel, map[uint16]uint16{RockletPort: RockletPort}, 9000, Door{}},
		{"a rocklet at the shell's port", UnmappedTunnel, map[uint16]uint16{RockletPort: 22}, 9000, Door{}},
		{"a pod's rocklet", UnmappedTunnel, map[uint16]uint16{RockletPort: 8000}, 9000, Door{"10.0.0.5:8000", 9000}},
		{"the rocklet itself", UnmappedTunnel, mapped, RockletPort, Door{}},
		{"the shell", UnmappedTunnel, mapped, 22, Door{}},
		{"dialled when told to", UnmappedDial, mapped, 9000, Door{Address: "10.0.0.5:9000"}},
		{"and low ports then", UnmappedDial, mapped, 80, Door{Address: "10.0.0.5:80"}},
		{"not at the number that is the rocklet's", UnmappedDial, mapped, 31001, Door{}},
		{"nor at envd's", UnmappedDial, map[uint16]uint16{EnvdPort: 31003}, 31003, Door{}},
		{"but at the same number", UnmappedDial, map[uint16]uint16{9000: 9000}, 9000, Door{Address: "10.0.0.5:9000"}},
		{"refused when told to", UnmappedRefuse, mapped, 9000, Door{}},
		{"mapped all the same", UnmappedRefuse, mapped, 8080, Door{Address: "10.0.0.5:31002"}},
	} {
		for _, mode := range []Mode{ModeDirect, ModeRock} {
			want := tc.want
			if tc.port == EnvdPort && mode == ModeRock {
				want = Door{} // the proxy role
			}
			c := &Cluster{Mode: mode, AllowedHosts: prefixes("10.0.0.0/8"), Unmapped: tc.unmapped, Own: func(netip.Addr) bool { return false }}
			got, err := c.DoorTo(&Route{Host: netip.MustParseAddr("10.0.0.5"), Ports: PortsOf(tc.ports)}, tc.port)
			refused := want == Door{} && !c.ThroughProxy(tc.port)
			if got != want || errors.Is(err, ErrPortNotExposed) != refused || !refused && err != nil {
				t.Errorf("%s, mode %s: %v, %v, want %v", tc.name, mode, got, err, want)
			}
		}
	}
}

func TestModeRockReachesEnvdThroughTheProxyRoleAndOtherPortsOnlyWhereAllowed(t *testing.T) {
	c := &Cluster{Mode: ModeRock}
	r := &Route{} // OpenSandbox records have no address
	if got, err := c.DoorTo(r, EnvdPort); err != nil || got != (Door{}) {
		t.Errorf("envd: %v, %v", got, err)
	}
	if _, err := c.DoorTo(r, 8080); !errors.Is(err, ErrPortNotExposed) {
		t.Errorf("without allow: %v", err)
	}
	c.AllowedHosts = prefixes("10.0.0.0/8")
	if _, err := c.DoorTo(r, 8080); !errors.Is(err, ErrNoAddress) {
		t.Errorf("without an address: %v", err)
	}
	r.Host, r.Ports = netip.MustParseAddr("192.0.2.1"), PortsOf(map[uint16]uint16{8080: 31002})
	if _, err := c.DoorTo(r, 8080); !errors.Is(err, ErrNoAddress) {
		t.Errorf("outside of allow: %v", err)
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
		c := &Cluster{Mode: ModeDirect, AllowedHosts: tc.allow, Unmapped: UnmappedDial, Own: func(a netip.Addr) bool { return a == own }}
		got, err := c.DoorTo(&Route{Host: netip.MustParseAddr(tc.host)}, 8080)
		if (err == nil) != tc.may || err != nil && !errors.Is(err, ErrNoAddress) {
			t.Errorf("%v, %s: %v, %v", tc.allow, tc.host, got, err)
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
	r := &Route{Host: netip.MustParseAddr("10.0.0.5"), Ports: PortsOf(map[uint16]uint16{8080: 22555, 8081: 22, 8082: 31001})}
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
		c := &Cluster{Mode: ModeDirect, AllowedHosts: prefixes("10.0.0.0/8"), Unmapped: UnmappedDial, Ports: tc.ports, Own: func(netip.Addr) bool { return false }}
		got, err := c.DoorTo(r, tc.port)
		if (err == nil) != tc.may || err != nil && !errors.Is(err, ErrPortNotExposed) {
			t.Errorf("%v, %d: %v, %v", tc.ports, tc.port, got, err)
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
