package routing

import (
	"net/http"
	"path"
	"strings"
	"testing"
)

func TestClassifyKnowsEveryCallOfTheAPI(t *testing.T) {
	for _, tc := range []struct {
		method, path string
		want         Operation
	}{
		{"POST", "/sandboxes", Operation{Plane: ControlPlane, Name: "Sandbox.create", Create: true}},
		{"POST", "/v2/sandboxes", Operation{Plane: ControlPlane, Name: "Sandbox.create", Create: true, CreateV2: true}},
		{"GET", "/v2/sandboxes", Operation{Plane: ControlPlane, Name: "Sandbox.list", Role: ProxyRole}},
		{"GET", "/sandboxes", Operation{Plane: ControlPlane, Name: "Sandbox.list", Role: ProxyRole}},
		{"GET", "/sandboxes/metrics", Operation{Plane: ControlPlane, Name: "Sandbox.get_metrics"}},
		{"GET", "/sandboxes/a-1", Operation{Plane: ControlPlane, Name: "Sandbox.get_info", SandboxID: "a-1"}},
		{"DELETE", "/sandboxes/a-1", Operation{Plane: ControlPlane, Name: "Sandbox.kill", SandboxID: "a-1"}},
		{"POST", "/sandboxes/a-1/timeout", Operation{Plane: ControlPlane, Name: "Sandbox.set_timeout", SandboxID: "a-1"}},
		{"POST", "/sandboxes/a-1/pause", Operation{Plane: ControlPlane, Name: "Sandbox.pause", SandboxID: "a-1", ChangesState: true}},
		{"POST", "/v2/sandboxes/a-1/connect", Operation{Plane: ControlPlane, Name: "Sandbox.connect", SandboxID: "a-1", ChangesState: true}},
		{"POST", "/sandboxes/a-1/fork", Operation{Plane: ControlPlane, Name: "Sandbox.fork", SandboxID: "a-1", ChangesState: true}},
		{"GET", "/sandboxes/a-1/metrics", Operation{Plane: ControlPlane, Name: "Sandbox.get_metrics", SandboxID: "a-1"}},
		{"POST", "/sandboxes/a-1/later", Operation{Plane: ControlPlane, Name: "this sandbox call", SandboxID: "a-1"}},
		{"GET", "/snapshots", Operation{Plane: ControlPlane, Name: "Sandbox.list_snapshots"}},
		{"POST", "/v3/templates", Operation{Plane: ControlPlane, Name: "Template"}},
		{"GET", "/templates/aliases/ns/name", Operation{Plane: ControlPlane, Name: "Template"}},
		{"GET", "/volumes", Operation{Plane: ControlPlane, Name: "Volume"}},
		{"GET", "/volumecontent/v/file", Operation{Plane: ControlPlane, Name: "Volume"}},
		{"GET", "/secrets", Operation{Plane: ControlPlane, Name: "Secret"}},
		{"GET", "/health", Operation{Plane: DataPlane, Name: "health"}},
		{"POST", "/files", Operation{Plane: DataPlane, Name: "files"}},
		{"POST", "/process.Process/Start", Operation{Plane: DataPlane, Name: "process.Process/Start"}},
		{"POST", "/a.b_c.D2/Call", Operation{Plane: DataPlane, Name: "a.b_c.D2/Call"}},
	} {
		if got := Classify(tc.method, tc.path); got != tc.want {
			t.Errorf("Classify(%s %s) = %+v, want %+v", tc.method, tc.path, got, tc.want)
		}
	}
}

// A path that two servers could read differently belongs to no plane.
func TestClassifyRefusesPathsThatAreNotClean(t *testing.T) {
	for _, p := range []string{
		"", "x", "/", "//", "/sandboxes/", "//sandboxes", "/sandboxes//a", "/sandboxes/../sandboxes",
		"/./files", "/files/", "//files", "/files/../init", "/health/.", "/process.Process/Start/",
		"/process.Process//Start", "/process.Process/Start/x", "/process/Start", "/.Process/Start",
		"/process./Start", "/process.Process/", "/process.Process/St-art", "/process.1/Start",
		"/FILES", "/Health", "/v2", "/v2/files", "/v4/sandboxes", "/sandboxesx", "/apis/envs/sandbox/v1/host/proxy/x",
	} {
		if got := Classify(http.MethodGet, p); got.Plane != NoPlane {
			t.Errorf("Classify(%q) = %+v, want no plane", p, got)
		}
	}
}

// Contract checklist 10: envd's management routes, in every spelling.
func TestReservedPathsAreSeenThroughDecodedDetours(t *testing.T) {
	for _, p := range []string{"/init", "//init", "/files/../init", "/./freeze", "/a/../fsthaw/", "/upgrade"} {
		if !Reserved(p) {
			t.Errorf("Reserved(%q) = false", p)
		}
	}
	for _, p := range []string{"/", "/files", "/initx", "/x/init", "/process.Process/Start"} {
		if Reserved(p) {
			t.Errorf("Reserved(%q) = true", p)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, p := range []string{"/sandboxes/a/timeout", "/process.Process/Start", "/v2/sandboxes", "/files", "/a/../init"} {
		f.Add("POST", p)
	}
	f.Fuzz(func(t *testing.T, method, p string) {
		op := Classify(method, p)
		if op.Plane == NoPlane {
			if op != (Operation{}) {
				t.Fatalf("no plane but %+v", op)
			}
			return
		}
		if path.Clean(p) != p || op.Name == "" {
			t.Fatalf("Classify(%q, %q) = %+v", method, p, op)
		}
		if op.SandboxID != "" && !strings.Contains(p, "/"+op.SandboxID) {
			t.Fatalf("id %q is not in %q", op.SandboxID, p)
		}
		if op.Plane == DataPlane && Reserved(p) {
			t.Fatalf("%q is reserved and served", p)
		}
	})
}
