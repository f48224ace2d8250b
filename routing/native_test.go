package routing

import (
	"strings"
	"testing"
)

func TestRocksOwnApiIsItsTableAndNothingElse(t *testing.T) {
	for call, want := range nativeCalls {
		method, path, _ := strings.Cut(call, " ")
		op := ClassifyNative(method, nativePrefix+strings.ReplaceAll(path, "{id}", "sbx-1"))
		if op.Plane != ControlPlane || op.Name != "rock."+path || op.Role != want.role || op.ChangesState != want.changesState || (op.SandboxID == "sbx-1") != strings.Contains(path, "{id}") {
			t.Errorf("%s: %+v", call, op)
		}
		// And by no other spelling of it.
		sent := nativePrefix + strings.ReplaceAll(path, "{id}", "sbx-1")
		for _, denied := range []struct{ method, path string }{
			{"PUT", sent}, {"DELETE", sent}, {"HEAD", sent}, {"OPTIONS", sent}, {"get", sent}, {strings.ToLower(method), sent},
			{method, sent + "/"}, {method, sent + "//"}, {method, "/" + sent}, {method, strings.ToUpper(sent)}, {method, sent + "/x"},
			{method, sent + ";x"}, {method, sent + "%2f"}, {method, sent + "%00"}, {method, sent + "?x"}, {method, sent + " "},
			{method, strings.Replace(sent, "v1", "v2", 1)}, {method, strings.Replace(sent, "v1", "%76%31", 1)},
			{method, strings.Replace(sent, "v1/", "v1//", 1)}, {method, strings.Replace(sent, "v1/", "v1/./", 1)},
			{method, strings.Replace(sent, "v1/", "v1/x/../", 1)}, {method, strings.Replace(sent, "v1/", `v1\`, 1)},
			{method, strings.TrimPrefix(sent, "/apis")}, {method, strings.TrimPrefix(sent, "/")}, {method, "http://rock" + sent},
		} {
			if op := ClassifyNative(denied.method, denied.path); op != (Operation{}) {
				t.Errorf("%s %s is %s", denied.method, denied.path, op.Name)
			}
		}
	}
}

// Rock contract 3.9: what nobody may reach through the gateway, admin or not.
func TestWhatMustNotBeReachedIsNoCallOfRocksApi(t *testing.T) {
	for _, path := range []string{
		"", "host/proxy", "host/proxy/x", "host/proxy/10.0.0.1:22555/execute", "get_token", "get_nacos_config", "ops/tasksets", "ops",
		"warmup", "warmup/x", "gem", "gem/x", "proxy/a/x", "sandboxes/a/proxy", "sandboxes/a/proxy/x", "sandboxes/a/proxy/port/22/x",
		"sandboxes/a/proxy/port/22555/execute", "sandboxes/a/vnc", "sandboxes/a/vnc/x", "sandboxes/a/portforward", "sandboxes/a",
		"sandboxes/{id}/restart", "sandboxes/../get_token", "sandboxes/a/../../get_token", "sandboxes/a%2frestart", "sandboxes//restart",
		"sandboxes/-a/restart", "sandboxes/a b/restart", "sandboxes/" + strings.Repeat("a", 254) + "/restart",
		"sandboxes/a/restart/x", "commit", "commit/", "commit/a/x", "commit/{id}", "is_alive/x", "start/x", "x/{id}", "sandboxes/batch/x",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "CONNECT"} {
			if path == "commit" && method == "POST" {
				continue
			}
			if op := ClassifyNative(method, nativePrefix+path); op != (Operation{}) {
				t.Errorf("%s %s is %s", method, path, op.Name)
			}
		}
	}
}

func FuzzClassifyNative(f *testing.F) {
	f.Add("POST", nativePrefix+"sandboxes/a/restart")
	f.Add("GET", nativePrefix+"sandboxes/../get_token")
	f.Fuzz(func(t *testing.T, method, path string) {
		op := ClassifyNative(method, path)
		if op == (Operation{}) {
			return
		}
		pattern := strings.TrimPrefix(op.Name, "rock.")
		if _, ok := nativeCalls[method+" "+pattern]; !ok || nativePrefix+strings.Replace(pattern, "{id}", op.SandboxID, 1) != path {
			t.Fatalf("%s %q is %+v", method, path, op)
		}
	})
}
