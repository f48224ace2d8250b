// Package cause is the one list of the ways a request can end and the one table
// of how each is told to a client.
//
// The E2B SDKs turn statuses and codes into exceptions that make programs throw
// sandboxes away, so the table is an API. Handlers name a cause; the table
// renders it for every protocol. Nothing else in the project picks a status, a
// code or a text for a failure.
//
// The three rules behind the table:
//
//   - 502 and the code unavailable mean "this sandbox is gone". The SDKs read
//     them so, and so does every program above them. The one exception is
//     E2B's own: 502 "port is not open", a text that newer SDKs look for.
//   - 503 means "nothing was done". Newer SDKs repeat the call, even a create.
//     An unknown outcome is 500 or 504.
//   - A message names the sandbox and says what to do. It never holds an
//     address, a credential or the text of an internal error.
package cause

// Cause is how a request ended. It is the log field, the placeholder and the
// reason in the answer.
type Cause uint8

const (
	// OK: the upstream's own answer was delivered whole, whatever it said.
	OK Cause = iota
	// ClientGone: the client left first. Nobody is there to be told.
	ClientGone
	// ClientStalled: the client took nothing for too long and was dropped.
	// It does not read what it could be told.
	ClientStalled
	// SandboxGone: the registry was asked and says there is no such sandbox.
	SandboxGone
	// SandboxExpired: it was stopped because its time ran out, which to E2B's
	// clients is the same as gone.
	SandboxExpired
	// SandboxPaused: the registry says it is stopped or archived.
	SandboxPaused
	// SandboxStopped: the registry says that it does not run, and nobody can
	// say whether it is paused or gone.
	SandboxStopped
	// SandboxStarting: the registry says it is not running yet.
	SandboxStarting
	// SandboxFailed: ROCK says that it has failed to start. It will never run, so
	// to clients it is gone.
	SandboxFailed
	// UpstreamReset: the connection was lost while the sandbox is still
	// registered, or nobody can say.
	UpstreamReset
	// UpstreamEOF: the upstream ended its answer early, but politely.
	UpstreamEOF
	// UpstreamIdle: the upstream stayed silent past its limit.
	UpstreamIdle
	// UpstreamUnavailable: ROCK said "unavailable" of a sandbox that is
	// registered as running. ROCK's text is kept.
	UpstreamUnavailable
	// UpstreamInvalid: the upstream answered something that is no answer to
	// the call.
	UpstreamInvalid
	// PortClosed: the sandbox runs, but nothing listens on the port, or the
	// port cannot be reached from outside.
	PortClosed
	// SandboxUnreachable: nobody answers at the sandbox's own address, neither
	// to accept nor to refuse, and it is registered as running. Nothing was sent.
	SandboxUnreachable
	// ClusterUnreachable: no address of the role accepted a connection.
	// Nothing was sent.
	ClusterUnreachable
	// RegistryUnavailable: the registry could not say. Nothing was sent.
	RegistryUnavailable
	// RouteUnusable: the registry holds the sandbox but its record cannot be
	// used. Nothing was sent.
	RouteUnusable
	// Deadline: the client's or the gateway's time ran out.
	Deadline
	// Drain: the gateway is going away.
	Drain
	// Truncated: a body was cut at a place where no protocol has room to say
	// so; the transport was aborted to make it visible.
	Truncated
	// Limit: too many or too fast.
	Limit
	// Unauthenticated: no credential, or not the right one.
	Unauthenticated
	// Forbidden: the credential is good, but not for this.
	Forbidden
	// TrafficTokenMissing and TrafficTokenWrong are Unauthenticated on the ports
	// of a sandbox that are not envd's, where E2B says 403.
	TrafficTokenMissing
	TrafficTokenWrong
	// KeysUnavailable: the credential could not be checked. Nothing was sent.
	KeysUnavailable
	// BadRequest: the request cannot be understood or carried out as sent.
	BadRequest
	// TooLarge: the request body is longer than allowed.
	TooLarge
	// HeaderTooLarge: the request's headers are longer than allowed.
	HeaderTooLarge
	// NoSuchRoute: the path is no call of the E2B API.
	NoSuchRoute
	// Reserved: the path is one of envd's own management routes.
	Reserved
	// NotOffered: E2B has the call, this deployment does not.
	NotOffered
	// Internal: a fault of the gateway.
	Internal

	causes // how many there are

	// Count is the same for who has a place for each.
	Count = int(causes)
)

// row is a line of the table.
type row struct {
	name string
	// code is the Connect code of the EndStream and of unary RPC errors.
	code string
	// status is the HTTP status where the protocol uses one.
	status int
	// health is the status on /health: 502 makes is_running() false, anything
	// else above 299 makes it raise. 0 means the same as status.
	health int
	// retryAfter is sent as Retry-After, in seconds, when above 0. Only
	// statuses that promise "nothing was done" carry it.
	retryAfter int
	// text is the message. %s is the sandbox id.
	text string
	// healthText is the message on /health, text if empty. Newest Python takes
	// a 502 for "not running" only if it says "was not found".
	healthText string
}

var table = [causes]row{
	OK:            {name: "ok"},
	ClientGone:    {name: "client_gone"},
	ClientStalled: {name: "client_stalled"},

	SandboxGone: {"sandbox_gone", "unavailable", 502, 0, 0,
		"The sandbox %s was not found: it was killed, it expired, or it never existed", ""},
	SandboxExpired: {"sandbox_expired", "unavailable", 502, 0, 0,
		"The sandbox %s was not found: its time ran out and it was stopped", ""},
	SandboxPaused: {"sandbox_paused", "failed_precondition", 400, 502, 0,
		"The sandbox %s is paused; it must be resumed before it can be used",
		"The sandbox %s was not found running: it is paused"},
	SandboxStopped: {"sandbox_stopped", "aborted", 503, 502, 1,
		"The sandbox %s is not running; whether it is paused or was killed cannot be found out at the moment",
		"The sandbox %s was not found running"},
	SandboxStarting: {"sandbox_starting", "aborted", 503, 502, 1,
		"The sandbox %s is still starting; nothing was done, try again in a moment",
		"The sandbox %s was not found running: it is still starting"},
	SandboxFailed: {"sandbox_failed", "unavailable", 502, 0, 0,
		"The sandbox %s was not found running: it has failed to start", ""},

	UpstreamReset: {"upstream_reset", "aborted", 500, 0, 0,
		"The connection to sandbox %s was lost; the sandbox may still be running, but the outcome of this call is unknown", ""},
	UpstreamEOF: {"upstream_eof", "aborted", 500, 0, 0,
		"The answer of sandbox %s ended before it was complete; the sandbox may still be running, but the outcome of this call is unknown", ""},
	UpstreamIdle: {"upstream_idle", "aborted", 504, 0, 0,
		"Sandbox %s sent nothing for too long; it may still be running, but the outcome of this call is unknown", ""},
	UpstreamUnavailable: {"upstream_unavailable", "aborted", 500, 503, 0,
		"The service in sandbox %s could not be reached; the sandbox is still registered as running", ""},
	UpstreamInvalid: {"upstream_invalid", "internal", 500, 503, 0,
		"The answer for sandbox %s could not be understood; the outcome of this call is unknown", ""},

	PortClosed: {"port_closed", "aborted", 502, 503, 0,
		"The sandbox %s is running but port is not open", ""},
	SandboxUnreachable: {"sandbox_unreachable", "aborted", 503, 0, 1,
		"Sandbox %s does not answer at its address; nothing was done, the sandbox may be running, try again", ""},
	ClusterUnreachable: {"cluster_unreachable", "aborted", 503, 0, 1,
		"The service behind this gateway cannot be reached; nothing was done, try again", ""},
	RegistryUnavailable: {"registry_unavailable", "aborted", 503, 0, 1,
		"The gateway cannot find out where sandbox %s is at the moment; nothing was done, the sandbox may be running, try again", ""},
	RouteUnusable: {"route_unusable", "aborted", 503, 0, 1,
		"Sandbox %s is registered, but cannot be reached yet; nothing was done, try again", ""},

	Deadline: {"deadline", "deadline_exceeded", 504, 0, 0,
		"The time allowed for this call ran out", ""},
	Drain: {"drain", "aborted", 503, 0, 1,
		"The gateway is restarting; the sandbox and its processes are still running, reconnect", ""},
	Truncated: {"truncated", "aborted", 500, 0, 0,
		"The answer was cut", ""},
	Limit: {"limit", "resource_exhausted", 429, 0, 1,
		"Too many requests", ""},
	Unauthenticated: {"unauthenticated", "unauthenticated", 401, 0, 0,
		"A valid credential is required", ""},
	Forbidden: {"forbidden", "permission_denied", 403, 0, 0,
		"The API key does not allow this call", ""},
	TrafficTokenMissing: {"traffic_token_missing", "permission_denied", 403, 0, 0,
		"Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing", ""},
	TrafficTokenWrong: {"traffic_token_wrong", "permission_denied", 403, 0, 0,
		"Sandbox is secured with traffic access token. Provided token in header 'e2b-traffic-access-token' is invalid", ""},
	KeysUnavailable: {"keys_unavailable", "aborted", 503, 0, 1,
		"The gateway cannot check the credential at the moment; nothing was done, try again", ""},
	BadRequest: {"bad_request", "invalid_argument", 400, 0, 0,
		"The request is not valid", ""},
	TooLarge: {"too_large", "resource_exhausted", 413, 0, 0,
		"The request body is too large", ""},
	HeaderTooLarge: {"header_too_large", "resource_exhausted", 431, 0, 0,
		"The request headers are too large", ""},
	NoSuchRoute: {"no_such_route", "unimplemented", 404, 0, 0,
		"There is no such call in the E2B API", ""},
	Reserved: {"reserved", "unimplemented", 404, 0, 0,
		"This endpoint is reserved for the platform and cannot be called from outside", ""},
	NotOffered: {"not_offered", "unimplemented", 501, 0, 0,
		"This call is not offered by this deployment", ""},
	Internal: {"internal", "internal", 500, 0, 0,
		"The gateway failed; the outcome of this call is unknown", ""},
}

// String is the cause's name in logs and placeholders.
func (c Cause) String() string {
	if c >= causes {
		return "invalid"
	}
	return table[c].name
}

// Code is the Connect code, "" for what no client is told.
func (c Cause) Code() string { return table[c].code }

// Status is the HTTP status where the protocol uses one.
func (c Cause) Status() int { return table[c].status }

// HealthStatus is the HTTP status on /health.
func (c Cause) HealthStatus() int {
	if h := table[c].health; h != 0 {
		return h
	}
	return table[c].status
}
