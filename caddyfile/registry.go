package e2bcaddyfile

import "github.com/caddyserver/caddy/v2"

// RedisConfig is the registry "redis": ROCK's own records, read from its
// Redis. It never writes.
type RedisConfig struct {
	// Addresses are "host:port" of the server; of the nodes in cluster mode;
	// of the sentinels with SentinelMaster. At least one, exactly one unless
	// Cluster or SentinelMaster is set.
	Addresses []string `json:"addresses"`
	// Username is the ACL user. Default: Redis's "default" user.
	Username string `json:"username,omitempty"`
	// Password is the password of the user. Use a placeholder.
	Password string `json:"password,omitempty"`
	// DB is the number of the database. Default: 0. Not in cluster mode.
	DB int `json:"db,omitempty"`
	// SentinelMaster is the name of the master that the sentinels know.
	SentinelMaster string `json:"sentinel_master,omitempty"`
	// SentinelUsername and SentinelPassword are for the sentinels themselves.
	SentinelUsername string `json:"sentinel_username,omitempty"`
	SentinelPassword string `json:"sentinel_password,omitempty"`
	// Cluster says that the addresses are nodes of a Redis Cluster.
	Cluster bool `json:"cluster,omitempty"`
	// TLS connects by TLS, to the sentinels too. Default: cleartext.
	TLS *TLSConfig `json:"tls,omitempty"`
	// Protocol is the version of the Redis protocol, 2 or 3. Default: 3.
	Protocol int `json:"protocol,omitempty"`
	// PoolSize is how many connections are kept to one server. Default: 10
	// for each CPU.
	PoolSize int `json:"pool_size,omitempty"`
	// DialTimeout bounds the making of a connection. Default: 1s.
	DialTimeout caddy.Duration `json:"dial_timeout,omitempty"`
	// ReadTimeout bounds the wait for one reply. Default: 500ms.
	ReadTimeout caddy.Duration `json:"read_timeout,omitempty"`
	// LookupTimeout bounds one lookup, retries included. Default: 1s.
	LookupTimeout caddy.Duration `json:"lookup_timeout,omitempty"`
	// Prefix stands before the id in the key of a record. Default: "alive:",
	// ROCK's own.
	Prefix string `json:"prefix,omitempty"`
	// Watch is how changes are learnt before the cache's TTL is over.
	Watch string `json:"watch,omitempty"`
}

// ControlConfig is the registry "control": the cluster's admin role is asked
// GET /sandboxes/{id}. It needs no configuration.
type ControlConfig struct{}

// StaticConfig is the registry "static": a table of sandboxes in the config.
// What is not in it is gone.
type StaticConfig struct {
	// Sandboxes are the records by sandbox id.
	Sandboxes map[string]*StaticSandbox `json:"sandboxes,omitempty"`
}

// StaticSandbox is one record of [StaticConfig].
type StaticSandbox struct {
	// State is "running" or "paused". Default: "running".
	State string `json:"state,omitempty"`
	// Host is the IP address of the sandbox. Needed in mode "direct" only.
	Host string `json:"host,omitempty"`
	// Ports maps a port inside the sandbox to the port to dial on Host.
	Ports map[uint16]uint16 `json:"ports,omitempty"`
}
