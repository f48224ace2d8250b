package reference

// section is one heading of the reference: a struct, and the function that reads
// it from a Caddyfile.
type section struct {
	title string
	// json is where the struct stands in a JSON config.
	json string
	// of is the struct, after the directory of its package.
	of string
	// grammar is the function whose comment has the syntax, or the type whose
	// UnmarshalCaddyfile it is. Empty: the syntax is that of the section above.
	grammar string
}

// sections are the reference, in the order of a reader: what everybody needs
// comes first, what is part of something after it.
var sections = []section{
	{"The global option", "`apps.e2b`", "caddyfile.Config", "ParseGlobal"},
	{"A cluster", "`apps.e2b.clusters[]`", "caddyfile.ClusterConfig", "parseCluster"},
	{"The directive", "the handler `e2b`, `http.handlers.e2b`", "caddyfile.HandlerConfig", "ParseDirective"},
	{"Access tokens", "`apps.e2b.tokens`", "caddyfile.TokensConfig", "parseTokens"},
	{"A token key", "`apps.e2b.tokens.keys[]`", "caddyfile.TokenKeyConfig", ""},
	{"Limits", "`apps.e2b.limits`", "caddyfile.LimitsConfig", "parseLimits"},
	{"The limits of a key and of a sandbox", "`key` and `sandbox` in `apps.e2b.limits`; `limits` in a record of a key", "auth.Limits", ""},
	{"The cache of routes", "`apps.e2b.cache`", "caddyfile.CacheConfig", "parseCache"},
	{"TLS to a server", "`tls` of a cluster, of a Redis, of a key server", "caddyfile.TLSConfig", "parseTLS"},

	{"Registry redis", "`registry` with `\"backend\": \"redis\"`, `e2b.registries.redis`", "caddyfile.RedisConfig", "RedisConfig"},
	{"A Redis", "in `registry` and `keys`, beside their own", "caddyfile.RedisConnection", "parseOption"},
	{"Redis Sentinel", "`sentinel` of a Redis", "caddyfile.SentinelConfig", ""},
	{"Registry control", "`registry` with `\"backend\": \"control\"`, `e2b.registries.control`", "caddyfile.ControlConfig", "ControlConfig"},
	{"Registry static", "`registry` with `\"backend\": \"static\"`, `e2b.registries.static`", "caddyfile.StaticConfig", "StaticConfig"},
	{"A sandbox of registry static", "`sandboxes.<id>`", "caddyfile.StaticSandbox", ""},

	{"Keys off", "`keys` with `\"store\": \"off\"`, `e2b.keys.off`", "caddyfile.KeysOffConfig", "KeysOffConfig"},
	{"Keys in a file", "`keys` with `\"store\": \"file\"`, `e2b.keys.file`", "caddyfile.FileKeysConfig", "FileKeysConfig"},
	{"Keys in the config", "`keys` with `\"store\": \"static\"`, `e2b.keys.static`", "caddyfile.StaticKeysConfig", "StaticKeysConfig"},
	{"Keys in a Redis", "`keys` with `\"store\": \"redis\"`, `e2b.keys.redis`", "caddyfile.RedisKeysConfig", "RedisKeysConfig"},
	{"Keys at a server", "`keys` with `\"store\": \"http\"`, `e2b.keys.http`", "caddyfile.HTTPKeysConfig", "HTTPKeysConfig"},
	{"The memory of keys", "in `keys` with `redis` and `http`, beside their own", "caddyfile.MemoryConfig", ""},
	{"The record of a key", "`keys[]` of `static` and of a file; the answer of a key server", "auth.Record", ""},
	{"The tenant of a key", "`tenant` of a record", "auth.Tenant", ""},

	{"The listener wrapper", "`listener_wrappers[]` with `\"wrapper\": \"e2b\"`, `caddy.listeners.e2b`", "caddyfile.ListenerConfig", "ListenerConfig"},
	{"The transport of reverse_proxy", "`transport` with `\"protocol\": \"e2b\"`, `http.reverse_proxy.transport.e2b`", "module.ReverseTransport", ""},
	{"The permission for certificates", "`permission` with `\"module\": \"e2b\"`, `tls.permission.e2b`", "module.Permission", "Permission"},
}

// spellings are the options that set a field, where the parser does not show it.
var spellings = map[string]string{
	"Config.Clusters":          "cluster",
	"ClusterConfig.Name":       "cluster <name>",
	"TokensConfig.Keys":        "key",
	"TokenKeyConfig.ID":        "key <id>",
	"TokenKeyConfig.Secret":    "key <id> <secret>",
	"Limits.Streams":           "streams",
	"Limits.Requests":          "requests",
	"Limits.Creates":           "creates",
	"Limits.Body":              "body",
	"TokensConfig.Passthrough": "tokens passthrough",
	"HandlerConfig.Plane":      "e2b <plane>",
	"FileKeysConfig.Path":      "keys file <path>",
	"HTTPKeysConfig.URL":       "keys http <url>",
	"StaticKeysConfig.Keys":    "key",
	"RedisConfig.Fields":       "field",
	"RedisConnection.Sentinel": "sentinel_…",
	"SentinelConfig.Master":    "sentinel_master",
	"SentinelConfig.Username":  "sentinel_username",
	"SentinelConfig.Password":  "sentinel_password",
	"StaticConfig.Sandboxes":   "sandbox",
	"StaticSandbox.State":      "state",
	"StaticSandbox.Host":       "host",
	"StaticSandbox.Ports":      "port",
	"StaticSandbox.Lifecycle":  "lifecycle",
	"StaticSandbox.Owner":      "owner",
	"StaticSandbox.Private":    "private",
	"MemoryConfig.Questions":   "questions",
	"MemoryConfig.Size":        "size",
	"Record.Digest":            "key <digest>",
	"Record.Subject":           "key <digest> <subject>",
	"Record.Scopes":            "scopes",
	"Record.Expires":           "expires",
	"Record.Disabled":          "disabled",
	"Record.Tenant":            "user_id …",
	"Record.Limits":            "streams …",
	"Record.Note":              "",
	"Tenant.UserID":            "user_id",
	"Tenant.Namespace":         "namespace",
	"Tenant.ExperimentID":      "experiment_id",
	"Tenant.Cluster":           "cluster",
}
