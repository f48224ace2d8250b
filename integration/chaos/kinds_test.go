package chaos

import (
	"fmt"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// registry is where the gateways of a world look sandboxes up.
type registry string

const (
	plain    registry = "redis"
	sentinel registry = "sentinel"
	sharded  registry = "cluster"
	control  registry = "control" // ROCK's admin role, and no Redis
)

// kind is a kind of world.
type kind struct {
	name      string
	registry  registry
	direct    bool // gateways dial the sandboxes themselves, and remember routes shortly
	transport harness.Transport
	gateways  int
	special   special
	// cheap worlds are part of every run of the tests.
	cheap bool
}

// special is what only one world has.
type special string

const (
	limited special = "limited" // little memory, and few files at times
	clocked special = "clocked" // its wall clock can be set
	dark    special = "dark"    // packets get lost
)

// kinds are all worlds. The seed, by its remainder, decides which one it is in.
var kinds = []kind{
	{name: "plain", registry: plain, transport: harness.Cleartext, gateways: 1, cheap: true},
	{name: "pair", registry: plain, direct: true, transport: harness.TLS2, gateways: 2, cheap: true},
	{name: "control", registry: control, direct: true, transport: harness.TLS1, gateways: 1, cheap: true},
	{name: "sentinel", registry: sentinel, transport: harness.TLS2, gateways: 1},
	{name: "cluster", registry: sharded, direct: true, transport: harness.Cleartext, gateways: 1},
	{name: "limits", registry: plain, transport: harness.TLS2, gateways: 1, special: limited, cheap: true},
	{name: "clock", registry: plain, direct: true, transport: harness.Cleartext, gateways: 1, special: clocked},
	{name: "dark", registry: plain, direct: true, transport: harness.TLS1, gateways: 1, special: dark},
}

func (k kind) String() string {
	mode := "rock"
	if k.direct {
		mode = "direct"
	}
	return fmt.Sprintf("world %s: registry %s, mode %s, %s, %d gateways", k.name, k.registry, mode, k.transport, k.gateways)
}
