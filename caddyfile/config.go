package e2bcaddyfile

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2"
)

// Config is the configuration of the app "e2b": everything that its handlers
// share. The smallest useful one is a cluster with its two addresses:
//
//	{"clusters": [{"name": "default",
//	  "admin": ["http://rock-admin:8080"],
//	  "proxy": ["http://rock-proxy:8081"]}]}
//
// Durations are numbers of nanoseconds or strings such as "1m30s". A duration
// or size that is zero or missing has its default. Strings that name an
// address, a file or a secret may hold placeholders ({env.NAME},
// {file./path}); they are expanded when the config is loaded, so that neither
// the file nor the output of "adapt" holds the secret.
type Config struct {
	// Clusters are the ROCK deployments behind the gateway. New sandboxes are
	// created in the first. Required: at least one.
	Clusters []*ClusterConfig `json:"clusters,omitempty"`

	// RegistryRaw is the registry of a cluster that names none itself.
	// Default: "control", {"backend": "control"}, which asks the admin role
	// about each sandbox. Records of the other registries do not say which
	// cluster they belong to, so with several clusters each must name its own.
	RegistryRaw json.RawMessage `json:"registry,omitempty" caddy:"namespace=e2b.registries inline_key=backend"`

	// KeysRaw is the store of the API keys. Required: {"store": "off"} lets
	// everybody do everything, as ROCK itself does.
	KeysRaw json.RawMessage `json:"keys,omitempty" caddy:"namespace=e2b.keys inline_key=store"`

	// Tokens is how the access tokens of sandboxes are made. Required with
	// every store of keys but "off", and an error with that.
	Tokens *TokensConfig `json:"tokens,omitempty"`

	// Unowned is who gets the sandboxes whose owner is not known, because they
	// were made past the gateway: "deny" for nobody, "allow" for every holder
	// of a key. Default: "deny".
	Unowned string `json:"unowned,omitempty"`

	// Health is who may ask whether a sandbox runs: "public" for everybody who
	// knows its id, as with E2B, "private" for the holders of its token.
	// Default: "public".
	Health string `json:"health,omitempty"`

	// Domains are the names below which every port of every sandbox has a host of
	// its own, <port>-<id>.<domain>, and what the answers to the SDKs name as the
	// domain: that below which the client has come, else the first. A port, as in
	// "sandbox.example.com:8443", is what clients dial. Default: none, and no such
	// hosts.
	Domains []string `json:"domains,omitempty"`

	// Traffic is who may use the ports of a sandbox that are not envd's: "public"
	// for everybody who knows its id, as with E2B, unless its creator wants a
	// token asked for (network.allowPublicTraffic); "private" for those who have
	// its traffic token or access token. Default: "public" with Domains,
	// "private" without.
	Traffic string `json:"traffic,omitempty"`

	// SandboxAddress is whether the metadata of sandboxes shows the address that
	// ROCK puts there: "hide" or "show". Default: "hide".
	SandboxAddress string `json:"sandbox_address,omitempty"`

	// ReadyTimeout is how long a call of the data plane waits for its sandbox to
	// start. A negative value means not at all. Default: 2m.
	ReadyTimeout caddy.Duration `json:"ready_timeout,omitempty"`

	// ReadyWaiting is how many calls wait at a time for sandboxes to start, a
	// quarter of them, or 256 if that is more, for one sandbox at most;
	// more are told at once that the sandbox is starting. Default: 10000.
	ReadyWaiting int `json:"ready_waiting,omitempty"`

	// Activity is how often, at most, the timeout of a sandbox that is in use is
	// pushed back in ROCK. A negative value leaves that to ROCK, which does it at
	// the beginning of a call only. Default: 30s.
	Activity caddy.Duration `json:"activity,omitempty"`

	// Limits is how much one key, and what is done with one sandbox, may take.
	// Default: none, but for the headers of a request.
	Limits *LimitsConfig `json:"limits,omitempty"`

	// Cache tunes the memory of routes in front of the registries. Default: those
	// of its fields.
	Cache *CacheConfig `json:"cache,omitempty"`

	// RockAPI is who may use ROCK's own API, under /apis/envs/sandbox/v1/, through
	// the gateway: "off" for nobody, "admin" for keys with the scope admin. It
	// never opens the calls that reach past ROCK's own checks or hand out its
	// credentials. Default: "off".
	RockAPI string `json:"rock_api,omitempty"`

	// CORS is whether the gateway lets web pages of every origin read its
	// answers, and answers browsers that ask for it: "on" or "off". Pages never
	// send cookies or the like along. Default: "on".
	CORS string `json:"cors,omitempty"`

	// DialTimeout bounds the making of one connection to ROCK or to a
	// sandbox, TLS handshake included. Default: 3s.
	DialTimeout caddy.Duration `json:"dial_timeout,omitempty"`

	// IdleTimeout is how long an unused connection to ROCK or to a sandbox is
	// kept. It must be shorter than the idle timeout at the other end, which
	// would otherwise close a connection just as a request is sent on it; ROCK
	// closes after 30s. Default: 25s.
	IdleTimeout caddy.Duration `json:"idle_timeout,omitempty"`

	// UpstreamClient is what sends HTTP/1.1 without TLS to ROCK and to sandboxes:
	// "lean", the gateway's own client, or "standard", that of Go's standard
	// library. What they do is the same; the lean one costs less. The other is the
	// way back if it should ever be found at fault. HTTP/2, TLS and what goes
	// through a rocklet are sent by the standard one always. Default: "lean".
	UpstreamClient string `json:"upstream_client,omitempty"`

	// ControlTimeout bounds a control-plane call, from its first byte sent to
	// its last byte received. ROCK answers a create when the sandbox is up, so
	// it is long. Default: 15m.
	ControlTimeout caddy.Duration `json:"control_timeout,omitempty"`

	// MaxHeldEnvelope is the longest envelope of a Connect stream, in bytes,
	// that is held until it is whole. A longer one is passed through as it
	// comes, and when it is cut short the client sees a broken transport.
	// Default: 1 MiB.
	MaxHeldEnvelope int64 `json:"max_held_envelope,omitempty"`

	// BufferBody is the longest data-plane request body of known length, in
	// bytes, that is read whole before the request is sent on. Default: 64 KiB.
	BufferBody int64 `json:"buffer_body,omitempty"`

	// UpstreamIdle is how long a sandbox may send nothing while it is its turn.
	// A stream may always miss one of the keepalive messages that its client
	// asked for; the SDKs ask for one every 50s, so that less than 2m5s makes no
	// difference to them. A negative value means for ever. Default: a stream
	// that has sent a keepalive message may miss two of them, everything else
	// may be silent for ever.
	UpstreamIdle caddy.Duration `json:"upstream_idle,omitempty"`

	// ClientStall is how long a client may take nothing of an answer before it
	// is dropped, or twice that in the middle of a long write. One that reads
	// slowly is held back and never dropped; it must take 32 KiB in this time.
	// It is also how long a client may take to send a
	// request body of at most BufferBody, and how long a sandbox may be silent
	// on a WebSocket whose client has ended its direction. A negative value
	// means for ever. Default: 5m.
	ClientStall caddy.Duration `json:"client_stall,omitempty"`

	// MaxControlBody is the longest control-plane request body, in bytes.
	// Longer ones are answered with 413. Default: 1 MiB.
	MaxControlBody int64 `json:"max_control_body,omitempty"`

	// DefaultLifetime is the timeout of a sandbox whose creator names none.
	// Whole seconds. Default: 5m, E2B's own.
	DefaultLifetime caddy.Duration `json:"default_lifetime,omitempty"`

	// DrainTimeout is the grace period when the http app has none: from the
	// moment at which the process has been told to exit (and shutdown_delay is
	// over) until the last stream and the last call have been ended. Where the
	// global option grace_period is set, that holds. Default: 30s.
	DrainTimeout caddy.Duration `json:"drain_timeout,omitempty"`

	// LogSampling thins the access log of what e2b serves: one in so many requests
	// that ended well has a line, by chance. Those that did not all have one, and so do
	// those that ROCK or a sandbox has answered with a status of 500 or above.
	// Default: 1, all.
	LogSampling int `json:"log_sampling,omitempty"`
}

// ClusterConfig is one ROCK deployment.
type ClusterConfig struct {
	// Name is the cluster's name in logs: 1 to 63 of a-z A-Z 0-9
	// - and _. Required, and unique.
	Name string `json:"name"`

	// Admin are the addresses of the admin role, which serves the control
	// plane: URLs of scheme, host and port only. Calls go round over those
	// that accept connections. Required: at least one.
	Admin []string `json:"admin"`

	// Proxy are the addresses of the proxy role, which serves the data plane
	// and the list of sandboxes: URLs as in Admin. A sandbox keeps to one
	// address for as long as it accepts connections. Required: at least one.
	Proxy []string `json:"proxy"`

	// Mode is how the data plane is reached: "rock" through the proxy role,
	// "direct" at the address in the sandbox's own record. Default: "rock".
	Mode string `json:"mode,omitempty"`

	// Allow are the networks, in CIDR notation, in which sandboxes may be
	// dialled: for everything in mode "direct", where it is required, for their
	// other ports than envd's in mode "rock", where without it those cannot be
	// reached. A wide network does not open what no sandbox should
	// have: loopback, link-local, metadata and multicast addresses need an
	// entry inside their own network (127.0.0.0/8), addresses of the gateway's
	// own machine one each (/32 or /128). Default: none, required in mode "direct".
	Allow []string `json:"allow,omitempty"`

	// UnmappedPorts is what becomes of a port that the sandbox's record does
	// not map: "tunnel" goes through ROCK's agent in the sandbox, "dial" to the
	// same number at the sandbox's address, as is right where every sandbox has
	// one of its own (pods) and wrong where they share one, "refuse" nowhere.
	// Needs Allow. Default: "tunnel".
	UnmappedPorts string `json:"unmapped_ports,omitempty"`

	// Ports are the ports of sandboxes that may be reached:
	// numbers and ranges such as "8080" and "8000-8999". Envd's, 49983, always
	// may, 22 and 22555 never. Needs Allow. Default: all but 22 and 22555.
	Ports []string `json:"ports,omitempty"`

	// Resume is what becomes of a connect or resume of a sandbox that is paused,
	// which in ROCK is one that was stopped: "restart" lets ROCK start it again,
	// with its files and without its processes, "off" refuses. Default: "off".
	Resume string `json:"resume,omitempty"`

	// Pause is what becomes of a pause: "stop" lets ROCK stop the sandbox, which
	// keeps its files and ends its processes, "off" refuses. ROCK must be told to
	// keep what it stops (lifecycle.auto_transition.auto_delete_seconds): published
	// ROCK deletes it. Default: "off".
	Pause string `json:"pause,omitempty"`

	// Weight is this cluster's share of the new sandboxes that nothing else gives
	// to a cluster. Default: 0, but with no weight anywhere the first cluster
	// gets all.
	Weight int `json:"weight,omitempty"`

	// Templates are patterns of template ids (path.Match) whose new sandboxes are
	// made in this cluster. Default: none.
	Templates []string `json:"templates,omitempty"`

	// RegistryRaw is where this cluster's routes are looked up. Default: the
	// registry of the app.
	RegistryRaw json.RawMessage `json:"registry,omitempty" caddy:"namespace=e2b.registries inline_key=backend"`

	// AESKey is ROCK's aes_encrypt_key, base64 of 32 bytes, as a placeholder:
	// {env.NAME} or {file./path}. With it the owner of a sandbox that was made
	// past the gateway is read from ROCK's record of it, if the API key it was
	// made with is known here. Default: none.
	AESKey string `json:"aes_key,omitempty"`

	// TLS is how https addresses of the roles are verified. Default: by the
	// system's authorities, at least TLS 1.2.
	TLS *TLSConfig `json:"tls,omitempty"`
}

// TokensConfig is how the access tokens of sandboxes are made: from keys, or not
// at all.
type TokensConfig struct {
	// Keys are the secrets that tokens are made with. The first makes them, all
	// of them are accepted. To change keys without downtime, add the new one
	// behind the old on every gateway, then put it first, and take the old one
	// away when its tokens are not needed any more. Required without
	// Passthrough: at least one.
	Keys []*TokenKeyConfig `json:"keys,omitempty"`

	// Passthrough makes no tokens: a sandbox's access token is an API key of
	// its owner, as with ROCK alone. It hands the key to whatever sees the
	// token. Default: false.
	Passthrough bool `json:"passthrough,omitempty"`
}

// TokenKeyConfig is one secret.
type TokenKeyConfig struct {
	// ID is part of every token: 1 to 32 of a-z 0-9 . -, e.g. "2026-11".
	// Required, and unique.
	ID string `json:"id"`
	// Secret is at least 32 bytes of text, as a placeholder: {env.NAME} or
	// {file./path}. Spaces and line ends around it do not count. Required.
	Secret string `json:"secret"`
}

// TLSConfig is the client side of a TLS connection. There is no option to
// skip verification.
type TLSConfig struct {
	// CA is a file of PEM certificates to trust instead of the system's.
	// Default: the system's.
	CA string `json:"ca,omitempty"`
	// Cert is a file of the PEM certificate to present. It needs Key.
	// Default: none.
	Cert string `json:"cert,omitempty"`
	// Key is a file of the PEM key of Cert. Default: none.
	Key string `json:"key,omitempty"`
	// ServerName is the name to verify and to ask for. Default: the host of
	// the address.
	ServerName string `json:"server_name,omitempty"`
}

// CacheConfig tunes the memory of routes. A negative Negative, Stale or
// Patience means none ("off" in the Caddyfile).
type CacheConfig struct {
	// TTL is how long a running route is served from memory. It
	// counts from the question; one that is used in the last quarter of it is asked
	// for again beside that. Default: 10s.
	TTL caddy.Duration `json:"ttl,omitempty"`
	// Negative is how long any other answer is remembered: no such sandbox,
	// or one that does not run (yet, or any more). Default: 1s.
	Negative caddy.Duration `json:"negative,omitempty"`
	// Stale is how much longer than its TTL a route may be served while the
	// registry cannot be asked. Default: 5m.
	Stale caddy.Duration `json:"stale,omitempty"`
	// Patience is how long a request waits for a slow registry when there is
	// a last known route to fall back to. Default: 200ms.
	Patience caddy.Duration `json:"patience,omitempty"`
	// LookupTimeout bounds one lookup, whatever the registry does.
	// Default: 1s.
	LookupTimeout caddy.Duration `json:"lookup_timeout,omitempty"`
	// Size is how many answers are remembered. Default: 1000000.
	Size int `json:"size,omitempty"`
	// Lookups is how many lookups run at a time. Default: 64.
	Lookups int `json:"lookups,omitempty"`
}

// HandlerConfig is the configuration of the handler "http.handlers.e2b".
type HandlerConfig struct {
	// Plane is what the handler serves: "control" or "data"; or "health", which is no
	// plane but what probes ask for, GET /e2b/ready and GET /e2b/live. A request of the
	// other plane is answered with 404; no request is ever passed on to the next
	// handler. Default: both.
	Plane string `json:"plane,omitempty"`
}
