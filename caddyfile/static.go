package e2bcaddyfile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/routing"
)

// subjectRule is what [auth.ValidSubject] wants.
const subjectRule = "a subject is 1 to 128 of A-Z a-z 0-9 . _ @ + -"

// staticStates are the values of [StaticSandbox].State.
var staticStates = []string{"starting", "running", "paused", "deleted"}

// UnmarshalCaddyfile reads the registry. Syntax:
//
//	registry control
func (c *ControlConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the backend's name
	return nothing(d, d.Val())
}

// UnmarshalCaddyfile reads the registry. Syntax:
//
//	registry static {
//	    sandbox <id> {                   # any number
//	        state     starting|running|paused|deleted
//	        host      <ip>
//	        port      <port in the sandbox> [<port on the host>]
//	        lifecycle <name>
//	        owner     <subject>
//	        private
//	    }
//	}
//
// A port without a second number is mapped to itself.
func (s *StaticConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the backend's name
	if d.NextArg() {
		return d.Errf("registry static takes no argument, but %q follows", d.Val())
	}
	return eachOption(d, func(option string) error {
		if option != "sandbox" {
			return unknown(d, option, "sandbox")
		}
		return s.parseSandbox(d)
	}, "sandbox")
}

func (s *StaticConfig) parseSandbox(d *caddyfile.Dispenser) error {
	var id string
	if !d.AllArgs(&id) {
		return d.Err("a sandbox needs one id: sandbox <id> { … }")
	}
	if !routing.ValidSandboxID(id) {
		return d.Errf("sandbox %q: %v", id, routing.ErrInvalidSandboxID)
	}
	if _, ok := s.Sandboxes[id]; ok {
		return d.Errf("sandbox %q is given twice", id)
	}
	sandbox := new(StaticSandbox)
	err := eachOption(d, func(option string) error {
		switch option {
		case "state":
			return choice(d, &sandbox.State, staticStates...)
		case "host":
			if err := setWord(d, &sandbox.Host); err != nil {
				return err
			}
			if _, err := netip.ParseAddr(sandbox.Host); err != nil && !hasPlaceholder(sandbox.Host) {
				return d.Errf("host: %q is not an IP address", sandbox.Host)
			}
			return nil
		case "port":
			return sandbox.parsePort(d)
		case "lifecycle":
			if err := setWord(d, &sandbox.Lifecycle); err != nil {
				return err
			}
			if !validName(sandbox.Lifecycle) {
				return d.Errf("lifecycle: %q: a name is 1 to 63 of a-z A-Z 0-9 - and _", sandbox.Lifecycle)
			}
			return nil
		case "owner":
			if err := setWord(d, &sandbox.Owner); err != nil {
				return err
			}
			if !auth.ValidSubject(sandbox.Owner) {
				return d.Errf("owner: %q: %s", sandbox.Owner, subjectRule)
			}
			return nil
		case "private":
			sandbox.Private = true
			return nothing(d, option)
		default:
			return unknown(d, option, "state", "host", "port", "lifecycle", "owner", "private")
		}
	}, "port")
	if err != nil {
		return err
	}
	if s.Sandboxes == nil {
		s.Sandboxes = map[string]*StaticSandbox{}
	}
	s.Sandboxes[id] = sandbox
	return nil
}

func (s *StaticSandbox) parsePort(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 1 && len(args) != 2 {
		return d.Err("port takes one or two numbers: port <port in the sandbox> [<port on the host>]")
	}
	inside, ok := routing.ParsePort(args[0])
	if !ok {
		return d.Errf("port: %q is not a port from 1 to 65535", args[0])
	}
	outside := inside
	if len(args) == 2 {
		if outside, ok = routing.ParsePort(args[1]); !ok {
			return d.Errf("port: %q is not a port from 1 to 65535", args[1])
		}
	}
	if _, ok := s.Ports[inside]; ok {
		return d.Errf("port %d is given twice", inside)
	}
	if s.Ports == nil {
		s.Ports = map[uint16]uint16{}
	}
	s.Ports[inside] = outside
	return noBlock(d, "port")
}

// Check reports the first record that cannot be read.
func (s *StaticConfig) Check() error {
	for id, sandbox := range s.Sandboxes {
		switch {
		case !routing.ValidSandboxID(id):
			return fmt.Errorf("sandbox %q: %w", id, routing.ErrInvalidSandboxID)
		case sandbox == nil:
			return fmt.Errorf("sandbox %q is null", id)
		case !slices.Contains(staticStates, cmp.Or(sandbox.State, "running")):
			return fmt.Errorf("sandbox %q: state is one of %s, not %q", id, strings.Join(staticStates, ", "), sandbox.State)
		case sandbox.Lifecycle != "" && !validName(sandbox.Lifecycle):
			return fmt.Errorf("sandbox %q: lifecycle %q: a name is 1 to 63 of a-z A-Z 0-9 - and _", id, sandbox.Lifecycle)
		}
		if sandbox.Owner != "" && !auth.ValidSubject(sandbox.Owner) {
			return fmt.Errorf("sandbox %q: owner %q: %s", id, sandbox.Owner, subjectRule)
		}
		for inside, outside := range sandbox.Ports {
			if inside == 0 || outside == 0 {
				return fmt.Errorf("sandbox %q: port 0 does not exist", id)
			}
		}
		if sandbox.Host != "" && !hasPlaceholder(sandbox.Host) {
			if _, err := netip.ParseAddr(sandbox.Host); err != nil {
				return fmt.Errorf("sandbox %q: host %q is not an IP address", id, sandbox.Host)
			}
		}
	}
	return nil
}
