package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/routing"
)

// shape is how a call tells what became of it, and so what the table expects.
type shape uint8

const (
	newOne   shape = iota // control plane: makes the caller's own
	many                  // control plane: the caller's own of many
	one                   // control plane: one that must be the caller's
	all                   // control plane: for admins, to everybody else not offered
	native                // ROCK's own API, for admins
	stream                // Connect streaming RPC
	unary                 // Connect unary RPC
	grpc                  // gRPC
	grpcWeb               // gRPC-Web
	file                  // /files with a token
	signed                // /files with a signed URL
	health                // /health
	socket                // a WebSocket at an RPC
	fileSock              // a WebSocket at /files or /health
	visitor               // a port that is not envd's
)

// row is a call.
type row struct {
	method, path string // {id}, {paused}, {doomed} are the sandboxes of the cast
	shape        shape
	contentType  string
	body         string
	// status and body of the answer to who may make the call: the body is a
	// regular expression for all of it.
	status int
	answer string
	// name is the call in messages, where the paths give none.
	name string
	// host is the preview host of the call, with {target} for the sandbox it is
	// about. Without one the routing headers name the sandbox.
	host string
}

const (
	start = "/process.Process/Start"
	stat  = "/filesystem.Filesystem/Stat"
	echo  = `{"process":{"cmd":"/bin/echo","args":["-n","to be seen"]}}`
)

// frame is an envelope of the Connect and gRPC protocols.
func frame(flag byte, payload string) string {
	return string([]byte{flag, 0, 0, byte(len(payload) >> 8), byte(len(payload))}) + payload
}

// notOffered is the answer to a call that ROCK does not have.
func notOffered(name string) string {
	return fmt.Sprintf(`\{"message":"%s is not offered by this deployment","code":501\}`, name)
}

// notOpen is what those are told who may use a port at which nothing listens.
const notOpen = `\{"sandboxId":"{id}","message":"The sandbox {id} is running but port is not open","port":8080,"code":502\}`

// rows are all calls. Those that end something stand last.
var rows = func() []row {
	const created = `\{.*"sandboxID":".*"envdAccessToken":"(e2ba_new_[A-Za-z0-9_-]{48}|e2b_(a1|b0)+)".*\}`
	const connected = `\{"sandboxID":"{id}",.*"envdAccessToken":"(e2ba_new_[A-Za-z0-9_-]{48}|e2b_(a1|b0)+)".*\}`
	list := []row{
		{method: "POST", path: start, shape: stream, contentType: "application/connect+json", body: frame(0, echo), status: 200, answer: `(?s).*dG8gYmUgc2Vlbg==.*"end".*\x02....\{\}`},
		{method: "POST", path: "/filesystem.Filesystem/WatchDir", shape: stream, contentType: "application/connect+proto", body: frame(0, "\x0a\x05/none"), status: 200, answer: `(?s)\x02.*"not_found".*`, name: "in proto"},
		{method: "POST", path: stat, shape: unary, contentType: "application/json", body: `{"path":"/"}`, status: 200, answer: `\{"entry":.*`},
		{method: "POST", path: "/process.Process/List", shape: unary, contentType: "application/json", body: `{}`, status: 200, answer: `\{.*\}`},
		{method: "POST", path: "/filesystem.Filesystem/WatchDir", shape: stream, contentType: "application/connect+json", body: frame(0, `{"path":"/none"}`), status: 200, answer: `(?s)\x02.*"not_found".*`},
		{method: "POST", path: stat, shape: grpc, contentType: "application/grpc+proto", body: frame(0, ""), status: 200, answer: `(?s).*`, name: "gRPC"},
		{method: "POST", path: stat, shape: grpcWeb, contentType: "application/grpc-web+proto", body: frame(0, ""), status: 200, answer: `(?s).*grpc-status: .*`, name: "gRPC-Web"},
		{method: "POST", path: "/files?path=%2Fhome%2Fuser%2Fa", shape: file, contentType: "application/octet-stream", body: "the file", status: 200, answer: `\[\{.*"name":"a".*\}\]`},
		{method: "GET", path: "/files?path=%2Fhome%2Fuser%2Fa", shape: file, status: 200, answer: `the file`},
		{method: "HEAD", path: "/files?path=%2Fhome%2Fuser%2Fa", shape: file, status: 200, answer: ``},
		{method: "POST", path: "/files?path=%2Fhome%2Fuser%2Fb", shape: signed, contentType: "application/octet-stream", body: "signed file", status: 200, answer: `\[\{.*"name":"b".*\}\]`, name: "signed write"},
		{method: "GET", path: "/files?path=%2Fhome%2Fuser%2Fb", shape: signed, status: 200, answer: `signed file`, name: "signed read"},
		{method: "GET", path: "/health", shape: health, status: 204, answer: ``},
		{method: "GET", path: start, shape: socket, status: 101, answer: `(?s)..{id}.*`, name: "WebSocket at an RPC"},
		{method: "GET", path: "/files?path=%2Fa", shape: fileSock, status: 101, answer: `(?s)..{id}.*`, name: "WebSocket at /files"},
		{method: "GET", path: "/health", shape: fileSock, status: 101, answer: `(?s)..{id}.*`, name: "WebSocket at /health"},

		{method: "POST", path: stat, host: "49983-{target}.box.test", shape: unary, contentType: "application/json", body: `{"path":"/"}`, status: 200, answer: `\{"entry":.*`, name: "at its host"},
		{method: "POST", path: start, host: "49983-{target}.box.test", shape: stream, contentType: "application/connect+json", body: frame(0, echo), status: 200, answer: `(?s).*dG8gYmUgc2Vlbg==.*"end".*\x02....\{\}`, name: "at its host"},
		{method: "GET", path: "/files?path=%2Fhome%2Fuser%2Fb", host: "49983-{target}.box.test", shape: signed, status: 200, answer: `signed file`, name: "signed read at its host"},
		{method: "GET", path: "/health", host: "49983-{target}.box.test", shape: health, status: 204, answer: ``, name: "at its host"},
		// Nothing listens there, which only those hear who were let through.
		{method: "GET", path: "/init", shape: visitor, status: 502, answer: notOpen, name: "of an app"},
		{method: "DELETE", path: "/sandboxes/{id}", shape: visitor, status: 502, answer: notOpen, name: "of an app"},
		{method: "GET", path: "/any", host: "8080-{target}.box.test", shape: visitor, status: 502, answer: notOpen, name: "of an app at its host"},

		{method: "POST", path: "/sandboxes", shape: newOne, body: `{"templateID":"python:3.11","metadata":{},"timeout":300}`, status: 201, answer: created},
		{method: "POST", path: "/v2/sandboxes", shape: newOne, body: `{"templateID":"python:3.11"}`, status: 201, answer: created},
		{method: "GET", path: "/v2/sandboxes?metadata=marker%3D{id}", shape: many, status: 200, answer: `\[\{.*"sandboxID":"{id}".*\}\]`},
		{method: "GET", path: "/sandboxes", shape: many, status: 200, answer: `\[\{.*"sandboxID":"{id}".*\}\]`},
		{method: "GET", path: "/v2/sandboxes", shape: many, status: 200, answer: `\[\{.*"sandboxID":"{id}".*\}\]`},
		{method: "GET", path: "/sandboxes/metrics", shape: all, name: "Sandbox.get_metrics"},
		{method: "GET", path: "/sandboxes/{id}", shape: one, status: 200, answer: `\{.*"sandboxID":"{id}".*\}`},
		{method: "POST", path: "/sandboxes/{id}/unknown", shape: all, name: "this sandbox call"},
		{method: "POST", path: "/sandboxes/{id}/fork", shape: all, name: "Sandbox.fork"},
		{method: "POST", path: "/sandboxes/{id}/timeout", shape: one, body: `{"timeout":600}`, status: 204},
		{method: "POST", path: "/sandboxes/{id}/refreshes", shape: one, body: `{"duration":900}`, status: 204},
		{method: "POST", path: "/sandboxes/{id}/connect", shape: one, body: `{"timeout":300}`, status: 200, answer: connected},
		{method: "POST", path: "/v2/sandboxes/{id}/connect", shape: one, body: `{}`, status: 200, answer: connected},
		{method: "POST", path: "/sandboxes/{id}/resume", shape: one, body: `{}`, status: 201, answer: connected},
	}
	for action, name := range map[string]string{
		"POST snapshots": "Sandbox.create_snapshot", "GET metrics": "Sandbox.get_metrics", "PUT network": "Sandbox.update_network", "GET logs": "Sandbox.logs",
	} {
		method, path, _ := strings.Cut(action, " ")
		list = append(list, row{method: method, path: "/sandboxes/{id}/" + path, shape: one, body: `{}`, status: 501, answer: notOffered(name)})
	}
	for first, name := range map[string]string{
		"snapshots": "Sandbox.list_snapshots", "templates": "Template", "volumes": "Volume", "volumecontent": "Volume", "secrets": "Secret",
		"teams": "teams", "nodes": "nodes", "api-keys": "api-keys", "access-tokens": "access-tokens",
	} {
		for _, tail := range []string{"", "/x", "/x/y"} {
			list = append(list, row{method: "GET", path: "/" + first + tail, shape: all, name: name})
		}
	}
	for _, call := range []string{
		"POST start", "POST start_async", "POST stop", "POST delete", "POST restart", "POST sandboxes/{id}/restart", "POST sandboxes/{id}/archive",
		"GET sandboxes/{id}/mount-infos", "GET is_alive", "GET get_status", "GET get_sandbox_statistics", "POST execute", "POST create_session",
		"POST run_in_session", "POST close_session", "POST read_file", "POST write_file", "POST upload", "POST commit", "GET commit/{id}",
		"GET sandboxes", "POST sandboxes/batch",
	} {
		method, path, _ := strings.Cut(call, " ")
		list = append(list, row{method: method, path: "/apis/envs/sandbox/v1/" + path, shape: native, body: `{"sandbox_id":"{id}"}`})
	}
	return append(list,
		row{method: "POST", path: "/sandboxes/{paused}/pause", shape: one, body: `{}`, status: 200, answer: `\{"forced":false\}`},
		row{method: "DELETE", path: "/sandboxes/{doomed}", shape: one, status: 204},
	)
}()

// String names the row in messages.
func (r row) String() string { return strings.TrimSpace(r.method + " " + r.path + " " + r.name) }

// Whoever adds a route adds a row: routing's tables against this one.
func TestEveryRouteHasARow(t *testing.T) {
	have := map[string]bool{}
	shapes := map[shape]bool{}
	for _, r := range rows {
		path, _, _ := strings.Cut(r.path, "?")
		for _, place := range []string{"{paused}", "{doomed}"} {
			path = strings.ReplaceAll(path, place, "{id}")
		}
		have[path], have[r.method+" "+path], shapes[r.shape] = true, true, true
	}
	for _, path := range routing.ControlPaths("{id}") {
		if !have[path] {
			t.Errorf("%s has no row", path)
		}
	}
	for _, path := range routing.DataPaths() {
		if !have[path] {
			t.Errorf("%s has no row", path)
		}
	}
	for _, call := range routing.NativePaths("{id}") {
		if !have[call] {
			t.Errorf("%s has no row", call)
		}
	}
	for s := newOne; s <= visitor; s++ {
		if !shapes[s] {
			t.Errorf("no row of shape %d", s)
		}
	}
}
