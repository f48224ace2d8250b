package module

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/auth/file"
	"github.com/caddy-e2b/gateway/auth/limit/share"
	"github.com/caddy-e2b/gateway/auth/redis"
	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
	"github.com/caddy-e2b/gateway/module/doctor"
	rockredis "github.com/caddy-e2b/gateway/routing/redis"
)

// doctorCommand is the command "doctor".
var doctorCommand = caddycmd.Command{
	Name:  "doctor",
	Usage: "[--config <file>] [--adapter <name>] [--resolver <host:port>] [--timeout <duration>] [--json]",
	Short: "Looks for what is wrong with a deployment of the gateway",
	Long: `Reads a config as "validate" does, without starting it, and looks for what is
wrong with it and with what it names: Redis and the rights of its user, the roles
of ROCK, the API keys and token keys, DNS, certificates, clocks, and the options
of Caddy that break streams. Each finding comes with what was seen, why it matters
and what to do. docs/doctor.md lists all of them.

Nothing is changed, and no secret is shown. Run it as the user of the service and
with its environment, and it sees what the service sees.

The exit code is 0 when there are no findings, or notes only; 1 when there are; and
2 when the config cannot be read.`,
	CobraFunc: func(cmd *cobra.Command) {
		cmd.Args = cobra.NoArgs
		configFlags(cmd)
		cmd.Flags().String("resolver", "", "the DNS server to ask for the names that clients use (default: the system's)")
		cmd.Flags().Duration("timeout", 10*time.Second, "how long it may take")
		cmd.Flags().Bool("json", false, "write the report as JSON")
		cmd.RunE = caddycmd.WrapCommandFuncForCobra(examine)
	},
}

var errFindings = errors.New("there are findings")

func examine(flags caddycmd.Flags) (int, error) {
	config, err := loadConfig(flags)
	if err != nil {
		return cannotSay, err
	}
	options := doctor.Options{Timeout: flags.Duration("timeout"), OpenFiles: openFiles()}
	if server := flags.String("resolver"); server != "" {
		if options.Resolver, err = resolverAt(server); err != nil {
			return cannotSay, err
		}
	}
	storage, err := os.MkdirTemp("", "e2b-gateway-doctor-")
	if err != nil {
		return cannotSay, fmt.Errorf("%w: doctor needs a directory for a moment, TMPDIR may name one", err)
	}
	defer os.RemoveAll(storage)
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	var uses leases
	defer uses.release()
	report := doctor.Examine(ctx, deploymentOf(ctx, config, storage, &uses), options)
	if flags.Bool("json") {
		err = writeJSON(os.Stdout, report)
	} else {
		err = report.Print(os.Stdout)
	}
	switch {
	case err != nil:
		return cannotSay, err
	case !report.Clean():
		return 1, errFindings
	}
	return 0, nil
}

// loadConfig reads the config that the flags name.
func loadConfig(flags caddycmd.Flags) ([]byte, error) {
	config, name, _, err := caddycmd.LoadConfig(flags.String("config"), flags.String("adapter"))
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, errors.New("there is no Caddyfile in this directory; name the config with --config")
	}
	return caddy.RemoveMetaFields(config), nil
}

// appIn is the app e2b of a config with its placeholders, nil when there is none.
func appIn(config []byte) (*e2bcaddyfile.Config, error) {
	var c struct {
		Apps struct {
			E2B *e2bcaddyfile.Config `json:"e2b"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("decoding the config: %w", err)
	}
	return c.Apps.E2B, nil
}

// resolverAt asks one DNS server.
func resolverAt(server string) (*net.Resolver, error) {
	if _, _, err := net.SplitHostPort(server); err != nil {
		return nil, fmt.Errorf("resolver: %q is not host:port", server)
	}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}
	return &net.Resolver{PreferGo: true, Dial: dial}, nil
}

// deploymentOf is what the doctor examines of a config. What the config keeps in
// Caddy's storage goes to an empty directory.
func deploymentOf(ctx caddy.Context, config []byte, storage string, uses *leases) doctor.Deployment {
	d := doctor.Deployment{Config: config, Refused: validate(config, storage)}
	c, err := appIn(config)
	if err != nil || c == nil {
		d.Refused = errors.Join(d.Refused, err)
		if d.Refused == nil {
			d.Refused = errors.New("it has no app e2b")
		}
		return d
	}
	app := &App{Config: *c}
	if err := app.prepare(ctx); err != nil {
		return d // validate says why
	}
	for _, cluster := range app.Clusters {
		verify, err := clientTLS(cluster.TLS)
		if err != nil {
			return d
		}
		d.TLS = append(d.TLS, verify)
	}
	d.App = &app.Config
	d.Redis = app.redisUses()
	d.Keys = app.keysUse(uses)
	return d
}

// validate is what Caddy's own "validate" does, without what that leaves behind
// when it is not run by the service's user: log files, and authorities in the
// storage, which is a directory here.
func validate(config []byte, storage string) error {
	var c *caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &c); err != nil {
		return fmt.Errorf("decoding the config: %w", err)
	}
	if c == nil {
		return errors.New("the config is empty")
	}
	var err error
	if c.StorageRaw, err = json.Marshal(map[string]string{"module": "file_system", "root": storage}); err != nil {
		return err
	}
	discard := json.RawMessage(`{"output": "discard"}`)
	if c.Logging == nil {
		c.Logging = new(caddy.Logging)
	}
	if c.Logging.Logs == nil {
		c.Logging.Logs = map[string]*caddy.CustomLog{}
	}
	if c.Logging.Logs["default"] == nil {
		c.Logging.Logs["default"] = new(caddy.CustomLog)
	}
	for _, log := range c.Logging.Logs {
		if log != nil {
			log.WriterRaw = discard
		}
	}
	return caddy.Validate(c)
}

// redisUses are the Redis servers of a prepared app and what is done with each.
func (a *App) redisUses() (uses []doctor.Redis) {
	shared, realm := a.redisOfLimits()
	channel := func(c *e2bcaddyfile.RedisConnection) string {
		if c == shared {
			return share.Channel + realm
		}
		return ""
	}
	for i, registry := range a.registries {
		if r, ok := registry.(*RedisRegistry); ok {
			uses = append(uses, doctor.Redis{
				For: "registry of cluster " + a.Clusters[i].Name, Cluster: i, Config: r.config(),
				Needs: rockredis.Needs{Records: true, Ends: a.Activity >= 0, Channel: channel(&r.RedisConnection)},
			})
		}
	}
	if keys, ok := a.keys.(*RedisKeys); ok {
		prefix := keys.Prefix
		if prefix == "" {
			prefix = redis.DefaultPrefix
		}
		uses = append(uses, doctor.Redis{
			For: "keys redis", Cluster: -1, Config: redisConfig(&keys.RedisConnection),
			Needs: rockredis.Needs{Hashes: prefix, Channel: channel(&keys.RedisConnection)},
		})
	}
	return uses
}

// keysUse is the store of a prepared app.
func (a *App) keysUse(uses *leases) (k doctor.Keys) {
	switch keys := a.keys.(type) {
	case nil:
		k.Store = "off"
	case *FileKeys:
		k.Store, k.File, k.Listed = "file", keys.Path, true
		k.Table, k.Err = file.Read(keys.Path)
	case *StaticKeys:
		k.Store, k.Listed = "static", true
		store, err := keys.Store(KeysEnvironment{})
		k.Table, _ = store.(auth.Table)
		k.Err = err
	case *RedisKeys:
		k.Store = "redis" // what is asked there is among the uses of Redis
	default:
		k.Store = string(keys.CaddyModule().ID.Name())
		k.Ask, k.Err = leaseKeys(uses, keys)
	}
	return k
}
