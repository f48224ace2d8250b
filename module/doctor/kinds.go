package doctor

// Severity is how bad a finding is.
type Severity string

// The severities. An error keeps users from working, or lets others in. A warning
// will, one day or in some cases. A note is worth knowing.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

func (s Severity) rank() int {
	return map[Severity]int{Error: 0, Warning: 1, Note: 2}[s]
}

// Kind is one thing that may be wrong.
type Kind struct {
	// ID is stable: scripts may look for it.
	ID       string
	Severity Severity
	// What it is, as a heading.
	What string
	// Why it matters, and what to Do about it.
	Why, Do string
}

// Kinds are all kinds of findings, by subject. docs/doctor.md has the same.
var Kinds []*Kind

func kind(id string, severity Severity, what, why, do string) *Kind {
	k := &Kind{id, severity, what, why, do}
	Kinds = append(Kinds, k)
	return k
}

// The config.
var (
	configRefused = kind("config-refused", Error, "Caddy does not take the config",
		"A gateway does not start with it, and a reload keeps the old one.",
		"Mend what the message names. Variables that are not set here but for the service: run doctor with the same environment.")
)

// Redis.
var (
	redisUnreachable = kind("redis-unreachable", Error, "A Redis cannot be reached",
		"Routes are served from memory for as long as `cache { stale }` says, and after that every call is answered with 503.",
		"Check the address, the firewall, and `tls` on both sides.")
	redisLogin = kind("redis-login", Error, "A Redis does not let the gateway in",
		"It is the same to users as a Redis that is down.",
		"Check `username` and `password`; the README has the line that makes the user.")
	redisRights = kind("redis-rights", Error, "A right of the gateway's Redis user is missing",
		"What the command is for does not work, and most of it fails silently until somebody needs it.",
		"Add the right to the user: the README has the whole line, and which part is for what.")
	redisCommands = kind("redis-commands", Error, "A Redis lacks a command",
		"What the command is for does not work with this server.",
		"Use Redis 6 or later, and 7 or later for the README's user. Or turn off what needs the command: `watch off`, `activity off`.")
	redisDocuments = kind("redis-documents", Warning, "A Redis has no JSON commands",
		"ROCK writes its records with JSON.SET. A Redis without it is not the one that ROCK uses, or ROCK fails.",
		"Name ROCK's own Redis: Redis Stack, or Redis 8 or later.")
	redisOther = kind("redis-other", Error, "Sandboxes that ROCK lists are not in the Redis",
		"The gateway reads another Redis, database or prefix than ROCK writes, so that every sandbox is called gone.",
		"Compare `address`, `db` and `prefix` with ROCK's own config.")
	redisRecords = kind("redis-records", Error, "Records of sandboxes cannot be read",
		"Calls to these sandboxes are answered with 503.",
		"Compare `field` with the names that this version of ROCK writes.")
	redisEvicts = kind("redis-evicts", Error, "A Redis may throw records away when its memory is full",
		"A sandbox whose record was evicted is called gone while it runs, and programs throw it away.",
		"Set `maxmemory-policy noeviction`.")
	redisEvents = kind("redis-events", Error, "A Redis does not tell of all changes",
		"With `watch keyspace` and without these events, a killed sandbox is found out only when its route expires.",
		"Set `notify-keyspace-events KEA` in the server, or use `watch tracking`.")
	redisReplica = kind("redis-replica", Warning, "A Redis is a replica",
		"It lags behind, takes no writes (`activity`), and stays a replica when another server becomes the master.",
		"Name the master, or its sentinels with `sentinel_master`.")
)

// The roles of ROCK.
var (
	roleUnreachable = kind("role-unreachable", Error, "An address of a role cannot be reached",
		"Calls go to the other addresses of the role, and fail when there are none.",
		"Check that ROCK runs there, the name, the port, and the firewall between.")
	roleSwapped = kind("role-swapped", Error, "An address belongs to the other role",
		"The roles share no call: creates go to a role that cannot create, or commands to one that cannot run them.",
		"Exchange the addresses of `admin` and `proxy`.")
	roleStranger = kind("role-stranger", Error, "An address answers, but not as the role of ROCK",
		"Something else listens there, or a proxy in between answers for itself.",
		"Name ROCK's own address; without a path, and with nothing in between that rewrites answers.")
	roleCertificate = kind("role-certificate", Error, "The certificate of a role is not accepted",
		"No connection is made with it. There is no option to skip verification.",
		"Give the authority with `tls { ca }`, or the name in the certificate with `tls { server_name }`; renew one that has expired.")
	clockSkew = kind("clock-skew", Warning, "Clocks differ",
		"Signed URLs expire too early or too late, and the end of a sandbox in use is set to the wrong time.",
		"Let every machine follow a time server (NTP).")
)

// Clusters.
var (
	clusterShared = kind("cluster-shared", Error, "Two clusters have an address in common",
		"Records of one deployment are looked up as the other's, and lists have every sandbox twice.",
		"One cluster for each deployment of ROCK.")
	clusterUnused = kind("cluster-unused", Note, "A cluster gets no new sandboxes",
		"Without `weight` or `templates` only keys that are pinned to it, and `X-Cluster`, make sandboxes there.",
		"Give it `weight`, or `templates`, if that is not meant.")
	clusterTemplates = kind("cluster-templates", Warning, "Two clusters claim the same templates",
		"The first of them gets all.",
		"Name each pattern in one cluster.")
	allowEverything = kind("allow-everything", Warning, "Sandboxes may be dialled in every network",
		"Whoever can write a record in Redis decides where the gateway connects to.",
		"Name the networks that sandboxes are in: `allow 10.20.0.0/16`.")
	idleTooLong = kind("idle-too-long", Warning, "Unused connections are kept for longer than ROCK keeps them",
		"ROCK closes after 30s: a request that is sent just then fails, and is not sent again.",
		"Leave `idle_timeout` out (25s), or set less than 30s.")
	controlTooShort = kind("control-too-short", Warning, "Creates are given up before ROCK answers them",
		"ROCK answers a create when the sandbox is up, for up to 85s. The client is told that the outcome is unknown, and the sandbox runs.",
		"Leave `control_timeout` out (15m), or set at least 90s.")
	sampleAESKey = kind("sample-aes-key", Error, "ROCK encrypts with the key of its sample configs",
		"Whoever reads its Redis reads the API keys in it.",
		"Give ROCK an `aes_encrypt_key` of its own, and the gateway the same.")
)

// Who gets in.
var (
	openGateway = kind("open-gateway", Error, "Everybody gets in from everywhere",
		"With `keys off` whoever reaches the listener may do everything with every sandbox.",
		"A store of keys (`keys file`), or `bind 127.0.0.1` on the site.")
	keysUnreadable = kind("keys-unreadable", Error, "The API keys cannot be read",
		"A gateway does not start without the file, and answers 503 while the store cannot be asked.",
		"Mend what the message names. It is about the user that doctor runs as: run it as the service's.")
	keysEmpty = kind("keys-empty", Warning, "No API key is valid",
		"There are none, or all are disabled or have expired: nobody gets in.",
		"Make one: `e2b-gateway keys new --subject NAME`.")
	keysAnything = kind("keys-anything", Error, "The server of API keys knows a key that nobody has",
		"It was asked for a digest of zeros, which is no key's. A server that answers 200 to everything lets everybody in.",
		"It must answer 404 for what it does not know.")
	keysWritable = kind("keys-writable", Error, "Everybody on the machine may write the file of API keys",
		"Whoever adds a line gets in.",
		"`chmod 640` it, with the service's group.")
	secretReadable = kind("secret-readable", Warning, "Everybody on the machine may read a file with a secret",
		"With a token key whoever reads it makes tokens for every sandbox.",
		"`chmod 640` it, with the service's group.")
	tokenKeyWeak = kind("token-key-weak", Error, "A token key can be guessed",
		"Whoever knows it makes tokens for every sandbox.",
		"`head -c 32 /dev/urandom | base64`")
	tokenKeyTwice = kind("token-key-twice", Warning, "Two token keys are the same",
		"Taking one of them away takes nothing away.",
		"A new secret for each id.")
	passthrough = kind("tokens-passthrough", Note, "Access tokens are API keys",
		"With `tokens passthrough` whoever sees the token of one sandbox has the key of its owner.",
		"`tokens { key … }`, unless clients need it.")
)

// Names and certificates.
var (
	nameUnresolved = kind("name-unresolved", Error, "The name of a site has no address",
		"Clients do not find it.",
		"Add the record to DNS. `--resolver` asks the server that clients ask.")
	wildcardUnresolved = kind("wildcard-unresolved", Error, "The hosts of sandboxes have no address",
		"`get_host()` names hosts that nobody finds.",
		"Add the record `*.<domain>` to DNS.")
	domainUnserved = kind("domain-unserved", Error, "No site serves a name below the domain",
		"SDKs with `E2B_DOMAIN` use `api.<domain>`, `sandbox.<domain>` and `<port>-<id>.<domain>`; Caddy answers names in no site with an empty 200 or a failed handshake.",
		"Add the site `*.<domain>` with `e2b`.")
	domainClosed = kind("domain-closed", Warning, "Hosts of sandboxes lead nowhere",
		"There is a `domain`, but no port other than envd's can be reached in this cluster.",
		"Add `allow` with the networks that its sandboxes are in.")
	certificateExpired = kind("certificate-expired", Error, "A certificate is not valid now",
		"Every client refuses it.",
		"Renew it; look at the clock as well.")
	certificateExpires = kind("certificate-expires", Warning, "A certificate expires within 14 days",
		"After that every client refuses it. Files are not renewed by Caddy.",
		"Renew it.")
	certificateName = kind("certificate-name", Error, "A certificate is not for the name of its site",
		"Every client refuses it.",
		"A certificate with that name; a wildcard stands for one label.")
	wildcardCertificate = kind("wildcard-certificate", Error, "There is no way to a certificate for a wildcard",
		"Public authorities give one only for a challenge by DNS.",
		"`tls { dns … }`, a certificate of your own, `tls internal`, or `on_demand`.")
	onDemandPermission = kind("on-demand-permission", Warning, "Certificates on demand are asked for names that may not exist",
		"Whoever opens connections for made-up names uses up the limits of the authority.",
		"`on_demand_tls { permission e2b }` allows hosts of sandboxes that live, and no others.")
)

// Servers.
var (
	noHandler = kind("no-handler", Error, "No site has the directive e2b",
		"The app does nothing.",
		"Add a site with `e2b`.")
	writeTimeout = kind("write-timeout", Error, "Answers must be over after a time",
		"A stream lives as long as its command. On HTTP/2 it is reset then, and the command's result is lost.",
		"Take `timeouts { write }` out.")
	readTimeout = kind("read-timeout", Warning, "Requests must be over after a time",
		"Long uploads and streams from clients are cut.",
		"Take `timeouts { read_body }` out; `read_body_idle` stops those that send nothing.")
	minimumRate = kind("minimum-rate", Error, "Streams must send at a rate",
		"A stream is quiet while its command is. It is cut for that.",
		"Take `read_min_rate` and `write_min_rate` out of the server.")
	idleTooShort = kind("idle-too-short", Warning, "Clients' unused connections are closed early",
		"Python's SDK keeps its own for 5m: it sends requests on connections that are just being closed, and shows its user the raw error.",
		"Leave `timeouts { idle }` out (11m), or set more than 5m.")
	fullDuplex = kind("full-duplex", Warning, "HTTP/1.1 is full duplex on a whole server",
		"Go panics in handlers that answer without having read the body (golang/go#68560).",
		"Take `enable_full_duplex` out; the gateway turns it on for the requests that need it.")
	noWrapper = kind("no-listener-wrapper", Warning, "Connections do not outlive reloads",
		"A reload closes connections, and ends streams of SDKs over HTTP/2.",
		"`servers { listener_wrappers { e2b } }`")
	offersHTTP2 = kind("offers-http2", Note, "Clients are offered HTTP/2 or HTTP/3",
		"Python's e2b 2.34.0 fails all calls of a process when one HTTP/2 connection ends, and HTTP/3 passes no listener wrapper.",
		"`servers { protocols h1 }`, for as long as you have clients that old.")
	noCatchAll = kind("no-catch-all", Warning, "Other host names are answered with an empty 200",
		"Every SDK takes that for success: `kill()` is True, `files.read()` is empty.",
		"Add a catch-all: `http:// { respond 421 }`.")
	adminExposed = kind("admin-exposed", Error, "The admin endpoint can be reached from other machines",
		"It has no password: whoever reaches it replaces the config and ends streams.",
		"`admin localhost:2019` or a Unix socket; for other machines Caddy's remote admin with client certificates.")
	adminOff = kind("admin-off", Note, "There is no admin endpoint",
		"Without it there are no reloads, and `routes`, `streams` and `explain` have nobody to ask.",
		"Leave `admin off` out.")
	graceTooShort = kind("grace-too-short", Warning, "Running calls get little time when the gateway stops",
		"Streams are ended in a third of the grace period, and calls that are not over are told that their outcome is unknown.",
		"`grace_period 30s`, or more.")
	delayTooShort = kind("delay-too-short", Warning, "Load balancers get little time to notice a stop",
		"Until they do they send clients to a gateway that refuses connections.",
		"`shutdown_delay` of at least two intervals of the load balancer's check: 10s.")
	openFilesLow = kind("open-files-low", Warning, "Few files may be open",
		"Each call takes two connections, and each connection is a file.",
		"`LimitNOFILE=1048576` in the service's unit, `ulimit -n` elsewhere.")
)

// Handlers in front of the gateway, and beside it.
var (
	encodeBefore = kind("encode-before", Warning, "Answers are compressed",
		"Compressing holds back what streams send, and SDKs do not ask for it.",
		"Take `encode` out of the site, or give it a matcher that leaves the gateway out.")
	bodyLimitBefore = kind("body-limit-before", Warning, "Request bodies are limited in front of the gateway",
		"Caddy's own 413 is no answer that SDKs can read.",
		"`max_control_body`, or `body` in `limits`, in the place of `request_body`.")
	bodySetBefore = kind("body-set-before", Error, "Request bodies are replaced in front of the gateway",
		"What clients send does not arrive.",
		"Take `request_body { set }` out.")
	rewriteBefore = kind("rewrite-before", Error, "Paths are rewritten in front of the gateway",
		"The path decides which call a request is, and signed URLs are signed with theirs.",
		"Take `rewrite`, `uri` and `handle_path` out: the URL of an SDK has no path.")
	loginBefore = kind("login-before", Error, "There is a login in front of the gateway",
		"SDKs send an API key and no password: all calls are answered with 401 by Caddy.",
		"Take it out: the gateway has `keys`.")
	headersBefore = kind("headers-before", Error, "Headers of the API are changed in front of the gateway",
		"Credentials and the names of sandboxes travel in them.",
		"Leave `X-API-Key`, `X-Access-Token`, `Authorization`, `E2b-*` and `Connect-*` alone.")
	proxyBuffers = kind("proxy-buffers", Error, "A reverse_proxy holds answers back",
		"Streams arrive when the buffer is full or the command is over.",
		"Take `response_buffers` out.")
	proxyBodyIdle = kind("proxy-body-idle", Warning, "Short streams may be cut without a fault",
		"With `read_body_idle` off, HTTP/1.1 calls of a `reverse_proxy` race with their own body (golang/go#40747).",
		"`request_buffers 64KiB` beside `transport e2b`.")
	credentialsLogged = kind("credentials-logged", Error, "Credentials are written to a log",
		"Who reads the log has the keys.",
		"Take the field out.")
	credentialsDebug = kind("credentials-debug", Warning, "Credentials may be written to the log at level debug",
		"`rewrite`, `uri` and other transports of `reverse_proxy` log whole requests in their own name, which the gateway cannot redact.",
		"Import `e2b_log_format` of the example into the global `log` block, or leave level debug.")
)
