package e2bcaddyfile

import "github.com/caddyserver/caddy/v2"

// RedisConfig is the registry "redis": ROCK's own records, read from its
// Redis. It never writes. Strings may hold placeholders.
type RedisConfig struct {
	RedisConnection
	// Prefix stands before the id in the key of a record. Default: "alive:",
	// ROCK's own.
	Prefix string `json:"prefix,omitempty"`
	// TimeoutPrefix stands before the id in the key that holds the end of a sandbox,
	// which is pushed back while the sandbox is in use. Default: "timeout:", ROCK's
	// own.
	TimeoutPrefix string `json:"timeout_prefix,omitempty"`
	// Fields are the names of what is read in a record, where they differ from
	// ROCK's own, by ROCK's own: state, host_ip, port_mapping, sandbox_id,
	// create_time, start_time, and auto_clear_time and expire_time beside it.
	// Default: ROCK's own.
	Fields map[string]string `json:"fields,omitempty"`
	// Watch is how changes are heard of at once: "tracking" (client tracking
	// in broadcast mode: Redis 6 or later, nothing to configure there),
	// "keyspace" (keyspace events: notify-keyspace-events must be set there)
	// or "off". When it fails the TTL of the cache is the backstop.
	// Default: "tracking".
	Watch string `json:"watch,omitempty"`
}

// RedisConnection is how a Redis is reached. Strings may hold placeholders.
type RedisConnection struct {
	// Addresses are "host:port" of the server; of some nodes in cluster mode;
	// of the sentinels with Sentinel. Required: at least one, and exactly one
	// unless Cluster or Sentinel is set.
	Addresses []string `json:"addresses"`
	// Username is the ACL user. Default: Redis's "default" user.
	Username string `json:"username,omitempty"`
	// Password is the password of the user, as a placeholder: {env.NAME} or
	// {file./path}. Default: none.
	Password string `json:"password,omitempty"`
	// DB is the number of the database. Default: 0, the only one ROCK uses.
	// Not in cluster mode.
	DB int `json:"db,omitempty"`
	// Sentinel finds the master through Redis Sentinel. Default: none.
	Sentinel *SentinelConfig `json:"sentinel,omitempty"`
	// Cluster says that the addresses are nodes of a Redis Cluster.
	// Default: false.
	Cluster bool `json:"cluster,omitempty"`
	// TLS connects by TLS, to the sentinels too. Default: cleartext.
	TLS *TLSConfig `json:"tls,omitempty"`
	// Protocol is the version of the Redis protocol, 2 or 3. With 2 no HELLO
	// is sent, which some proxies do not know. Default: 2.
	Protocol int `json:"protocol,omitempty"`
	// Identify tells the server the name of the client library, for CLIENT
	// LIST. Some proxies and ACLs refuse the command it takes. Default: false.
	Identify bool `json:"identify,omitempty"`
	// PoolSize is the greatest number of connections for lookups, for each
	// server. Default: 64.
	PoolSize int `json:"pool_size,omitempty"`
	// Timeout bounds a whole lookup and each of its steps. Default: 1s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

// SentinelConfig names the master that sentinels look after.
type SentinelConfig struct {
	// Master is the name of the master in the sentinels' configuration.
	// Required.
	Master string `json:"master"`
	// Username is the ACL user at the sentinels themselves. Default: none.
	Username string `json:"username,omitempty"`
	// Password is that user's password, as a placeholder: {env.NAME} or
	// {file./path}. Default: none.
	Password string `json:"password,omitempty"`
}

// ControlConfig is the registry "control": the cluster's admin role is asked
// GET /sandboxes/{id}. It needs no configuration.
type ControlConfig struct{}

// StaticConfig is the registry "static": a table of sandboxes in the config.
// What is not in it is gone.
type StaticConfig struct {
	// Sandboxes are the records by sandbox id. Default: none.
	Sandboxes map[string]*StaticSandbox `json:"sandboxes,omitempty"`
}

// StaticSandbox is one record of [StaticConfig].
type StaticSandbox struct {
	// State is "starting", "running", "paused" or "deleted".
	// Default: "running".
	State string `json:"state,omitempty"`
	// Host is the IP address of the sandbox. Default: none, which is enough
	// where sandboxes are reached through the proxy role only.
	Host string `json:"host,omitempty"`
	// Ports maps a port inside the sandbox to the port to dial on Host.
	// Default: none.
	Ports map[uint16]uint16 `json:"ports,omitempty"`
	// Lifecycle names this life of the sandbox: connections are never shared
	// between two of them. Default: made from Host and Ports.
	Lifecycle string `json:"lifecycle,omitempty"`
	// Owner is the subject of the API keys whose sandbox it is. Default:
	// nobody's known.
	Owner string `json:"owner,omitempty"`
	// Private wants a token asked for on every port, also where those of others
	// are public.
	// Default: false.
	Private bool `json:"private,omitempty"`
}
