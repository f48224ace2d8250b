package routing

import (
	"net/http"
	"slices"
	"strings"
)

// nativePrefix begins the paths of ROCK's own API.
const nativePrefix = "/apis/envs/sandbox/v1/"

// nativeCall is a line of the table of ROCK's own API.
type nativeCall struct {
	role         Role
	changesState bool
}

// nativeCalls is all of ROCK's own API that can be passed on, by method and by
// the path behind nativePrefix, with {id} for a sandbox. Nothing else of it can:
//
//   - host/proxy sends to any address, proxy to any port of a worker;
//   - vnc and portforward are connections into a sandbox past its tokens;
//   - get_token and get_nacos_config hand out credentials;
//   - ops, warmup and gem are for ROCK's operators.
//
// Where both roles have a call, the life of a sandbox is asked of the admin role
// and work in it is given to the proxy role.
var nativeCalls = map[string]nativeCall{
	"POST start":                     {AdminRole, true},
	"POST start_async":               {AdminRole, true},
	"POST stop":                      {AdminRole, true},
	"POST delete":                    {AdminRole, true},
	"POST restart":                   {AdminRole, true},
	"POST sandboxes/{id}/restart":    {AdminRole, true},
	"POST sandboxes/{id}/archive":    {AdminRole, true},
	"GET sandboxes/{id}/mount-infos": {AdminRole, false},
	"GET is_alive":                   {AdminRole, false},
	"GET get_status":                 {AdminRole, false},
	"GET get_sandbox_statistics":     {AdminRole, false},
	"POST execute":                   {ProxyRole, false},
	"POST create_session":            {ProxyRole, false},
	"POST run_in_session":            {ProxyRole, false},
	"POST close_session":             {ProxyRole, false},
	"POST read_file":                 {ProxyRole, false},
	"POST write_file":                {ProxyRole, false},
	"POST upload":                    {ProxyRole, false},
	"POST commit":                    {ProxyRole, false},
	"GET commit/{id}":                {ProxyRole, false},
	"GET sandboxes":                  {ProxyRole, false},
	"POST sandboxes/batch":           {ProxyRole, false},
}

// NativePaths are the calls of ROCK's own API that [ClassifyNative] knows, each as
// "METHOD path", with the given id where they name a sandbox.
func NativePaths(sandboxID string) []string {
	var calls []string
	for call := range nativeCalls {
		method, rest, _ := strings.Cut(call, " ")
		calls = append(calls, method+" "+nativePrefix+strings.ReplaceAll(rest, "{id}", sandboxID))
	}
	slices.Sort(calls)
	return calls
}

// ClassifyNative recognises a call of ROCK's own API by its method and its path
// as it was sent. Both must be in the table to the byte: a path with an escape,
// a dot segment or a slash too many is none. The zero Operation is no call.
func ClassifyNative(method, sentPath string) Operation {
	rest, ok := strings.CutPrefix(sentPath, nativePrefix)
	if !ok || method != http.MethodGet && method != http.MethodPost {
		return Operation{}
	}
	op := Operation{Plane: ControlPlane}
	if call, ok := nativeCalls[method+" "+rest]; ok && !strings.Contains(rest, "{") {
		op.Name, op.Role, op.ChangesState = "rock."+rest, call.role, call.changesState
		return op
	}
	collection, tail, _ := strings.Cut(rest, "/")
	id, action, has := strings.Cut(tail, "/")
	pattern := collection + "/{id}"
	if has {
		pattern += "/" + action
	}
	call, ok := nativeCalls[method+" "+pattern]
	if !ok || !ValidSandboxID(id) {
		return Operation{}
	}
	op.Name, op.Role, op.ChangesState, op.SandboxID = "rock."+pattern, call.role, call.changesState, id
	return op
}
