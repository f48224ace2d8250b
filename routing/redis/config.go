package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/routing"
)

// Config says how to reach Redis and how to read it. The zero value of a field
// means its default. Durations are nanoseconds in JSON.
type Config struct {
	// Addresses are host:port. One address is one server; with Sentinel they
	// are the sentinels, with Cluster some nodes of the cluster. Required.
	Addresses []string `json:"addresses,omitempty"`
	// Username is the ACL user. Default: Redis's own default user.
	Username string `json:"username,omitempty"`
	// Password of the user, or the server's requirepass. Default: none.
	Password string `json:"password,omitempty"`
	// DB is the database's number. Default: 0, the only one ROCK uses.
	DB int `json:"db,omitempty"`

	// Sentinel finds the master through Redis Sentinel.
	Sentinel *Sentinel `json:"sentinel,omitempty"`
	// Cluster speaks to a Redis Cluster: follows MOVED and ASK.
	Cluster bool `json:"cluster,omitempty"`
	// TLS encrypts every connection, those to sentinels included. An empty
	// object trusts the system's authorities. There is no way not to verify.
	TLS *TLS `json:"tls,omitempty"`

	// Protocol is the RESP version, 2 or 3. With 2 no HELLO is sent, which
	// some proxies answer by closing the connection. Default: 2.
	Protocol int `json:"protocol,omitempty"`
	// Identify tells the server the client library's name, for CLIENT LIST.
	// It needs CLIENT SETINFO, which some proxies and ACLs lack. Default: off.
	Identify bool `json:"identify,omitempty"`
	// PoolSize is the greatest number of connections for lookups, for each
	// node. Connections are opened when needed. Default: 64.
	PoolSize int `json:"pool_size,omitempty"`
	// Timeout bounds a whole lookup, and each of its steps: a place in the
	// pool, dialling, TLS, login, question and answer. An earlier deadline of
	// the caller counts. Default: 1s.
	Timeout time.Duration `json:"timeout,omitempty"`

	// KeyPrefix comes before the sandbox's id. Default: "alive:".
	KeyPrefix string `json:"key_prefix,omitempty"`
	// TimeoutPrefix comes before the sandbox's id in the key that holds its end.
	// Default: "timeout:".
	TimeoutPrefix string `json:"timeout_prefix,omitempty"`
	// Fields are the names of what is read in a record.
	Fields Fields `json:"fields,omitzero"`

	// Watch is how changes are heard of at once: "tracking" (CLIENT TRACKING
	// in broadcast mode; Redis 6 or later, nothing to configure there),
	// "keyspace" (keyspace events; notify-keyspace-events must be set, such as
	// to "KEA") or "off". Whatever fails with it is logged and retried; the
	// cache's time to live is the backstop. Default: "tracking".
	Watch string `json:"watch,omitempty"`

	// Evicted is asked about a sandbox without a record, because ROCK evicts
	// the records of all that it stops. It is gone when this says so
	// (ErrGone), paused or expired when this says so, and StateStopped when
	// this fails or has no answer in half of Timeout. Default: nobody is
	// asked, and the sandbox is gone.
	Evicted func(ctx context.Context, sandboxID string) (*routing.Route, error) `json:"-"`

	// KeyOf opens rock_authorization_encrypted and returns the SHA-256 of the
	// API key in it, false when there is none or it cannot be opened. It tells
	// the owners of sandboxes that were made past the gateway. Default: they
	// are nobody's.
	KeyOf func(sealed string) (key [32]byte, ok bool) `json:"-"`

	// Logger takes what happens to the watch. Default: slog.Default().
	Logger *slog.Logger `json:"-"`
}

// Sentinel names the master that sentinels look after.
type Sentinel struct {
	// Master is the master's name in the sentinels' configuration. Required.
	Master string `json:"master,omitempty"`
	// Username and Password log in to the sentinels themselves. Default: none.
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
}

// TLS says whom to trust and who we are.
type TLS struct {
	// CAFile is a PEM file of the authorities to trust. Default: the system's.
	CAFile string `json:"ca_file,omitempty"`
	// CertFile and KeyFile are our own certificate, PEM. Default: none.
	CertFile string `json:"cert_file,omitempty"`
	KeyFile  string `json:"key_file,omitempty"`
	// ServerName is the name to find in the server's certificate. Default: the
	// host that is dialled.
	ServerName string `json:"server_name,omitempty"`
}

// Fields are names in a record, rock's own by default.
type Fields struct {
	State       string `json:"state,omitempty"`        // Default: "state"
	HostIP      string `json:"host_ip,omitempty"`      // Default: "host_ip"
	PortMapping string `json:"port_mapping,omitempty"` // Default: "port_mapping"
	SandboxID   string `json:"sandbox_id,omitempty"`   // Default: "sandbox_id"
	CreateTime  string `json:"create_time,omitempty"`  // Default: "create_time"
	StartTime   string `json:"start_time,omitempty"`   // Default: "start_time"
	// The sandbox's timeout in minutes and its end in Unix seconds, beside the record.
	// ROCK's own names for them can be changed by its environment.
	AutoClearTime string `json:"auto_clear_time,omitempty"` // Default: "auto_clear_time"
	ExpireTime    string `json:"expire_time,omitempty"`     // Default: "expire_time"
}

// Values of Config.Watch.
const (
	WatchTracking = "tracking"
	WatchKeyspace = "keyspace"
	WatchOff      = "off"
)

func (f Fields) withDefaults() Fields {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&f.State, "state"}, {&f.HostIP, "host_ip"}, {&f.PortMapping, "port_mapping"},
		{&f.SandboxID, "sandbox_id"}, {&f.CreateTime, "create_time"}, {&f.StartTime, "start_time"},
		{&f.AutoClearTime, "auto_clear_time"}, {&f.ExpireTime, "expire_time"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	return f
}

func (c Config) withDefaults() Config {
	c.Fields = c.Fields.withDefaults()
	if c.Protocol == 0 {
		c.Protocol = 2
	}
	if c.PoolSize == 0 {
		c.PoolSize = 64
	}
	if c.Timeout == 0 {
		c.Timeout = time.Second
	}
	if c.KeyPrefix == "" {
		c.KeyPrefix = "alive:"
	}
	if c.TimeoutPrefix == "" {
		c.TimeoutPrefix = "timeout:"
	}
	if c.Watch == "" {
		c.Watch = WatchTracking
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Validate reports the first thing that is wrong with the configuration. It
// reads no file and opens no connection.
func (c Config) Validate() error {
	c = c.withDefaults()
	if len(c.Addresses) == 0 {
		return errors.New("redis: no address")
	}
	for _, a := range c.Addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return fmt.Errorf("redis: address %q is not host:port", a)
		}
	}
	switch {
	case c.Sentinel != nil && c.Cluster:
		return errors.New("redis: sentinel and cluster exclude each other")
	case c.Sentinel != nil && c.Sentinel.Master == "":
		return errors.New("redis: sentinel needs the name of a master")
	case c.Cluster && c.DB != 0:
		return errors.New("redis: a cluster has no database but 0")
	case c.Sentinel == nil && !c.Cluster && len(c.Addresses) > 1:
		return errors.New("redis: several addresses need sentinel or cluster")
	case c.DB < 0:
		return fmt.Errorf("redis: db %d is negative", c.DB)
	case c.Protocol != 2 && c.Protocol != 3:
		return fmt.Errorf("redis: protocol %d is neither 2 nor 3", c.Protocol)
	case c.PoolSize < 0:
		return fmt.Errorf("redis: pool_size %d is negative", c.PoolSize)
	case c.Timeout < 0:
		return fmt.Errorf("redis: timeout %v is negative", c.Timeout)
	case c.Username != "" && c.Password == "":
		return errors.New("redis: a username needs a password")
	case c.TLS != nil && (c.TLS.CertFile == "") != (c.TLS.KeyFile == ""):
		return errors.New("redis: tls cert_file and key_file need each other")
	}
	switch c.Watch {
	case WatchTracking, WatchKeyspace, WatchOff:
		return nil
	default:
		return fmt.Errorf("redis: watch %q is none of tracking, keyspace, off", c.Watch)
	}
}

// String tells where the registry is, without any secret.
func (c Config) String() string {
	kind := "redis"
	switch {
	case c.Sentinel != nil:
		kind = "redis sentinel " + c.Sentinel.Master
	case c.Cluster:
		kind = "redis cluster"
	}
	return kind + " " + strings.Join(c.Addresses, ",")
}

// GoString keeps passwords out of %#v.
func (c Config) GoString() string { return "redis.Config{" + c.String() + "}" }

// options are go-redis's options for c, which has its defaults.
func (c Config) options() (*goredis.UniversalOptions, error) {
	encryption, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	o := &goredis.UniversalOptions{
		Addrs:         c.Addresses,
		Username:      c.Username,
		Password:      c.Password,
		DB:            c.DB,
		IsClusterMode: c.Cluster,
		Protocol:      c.Protocol,
		// Used for sentinels as well as for servers. It does TLS itself.
		Dialer: dialer{timeout: c.Timeout, tls: encryption, hello: c.Protocol == 3}.dial,

		DisableIdentity: !c.Identify,
		// One try: the cache decides about a second one, and Lookup about
		// connections that died while idle.
		MaxRetries:    -1,
		DialerRetries: 1,
		DialTimeout:   c.Timeout,
		ReadTimeout:   c.Timeout,
		WriteTimeout:  c.Timeout,

		ContextTimeoutEnabled: true,
		PoolSize:              c.PoolSize,
		PoolTimeout:           c.Timeout,
		PipelinePoolSize:      -1,
		// A record is a few kilobytes, a question a few dozen bytes.
		ReadBufferSize:  8 << 10,
		WriteBufferSize: 1 << 10,
	}
	if c.Sentinel != nil {
		o.MasterName = c.Sentinel.Master
		o.SentinelUsername = c.Sentinel.Username
		o.SentinelPassword = c.Sentinel.Password
	}
	return o, nil
}

func (t *TLS) config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redis: tls ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redis: tls ca_file %s holds no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("redis: tls cert_file: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}
