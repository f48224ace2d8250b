package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// kustomizations are what an operator may apply, and what else there is in the cluster: objects that are made by hand.
var kustomizations = map[string]struct {
	directory string
	byHand    string
}{
	"deployment": {"deploy/kubernetes", ""},
	"sidecar":    {"integration/manifests/testdata/rock", "Secret/e2b-gateway"},
}

// object is one of Kubernetes, as its own types write it.
type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Annotations     map[string]string
	}
	Spec       json.RawMessage
	Data       map[string]string // of a ConfigMap
	StringData map[string]string // of a Secret
}

func (o *object) id() string { return o.Kind + "/" + o.Metadata.Name }

// spec reads what the object is to be.
func (o *object) spec(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(o.Spec, into); err != nil {
		t.Fatalf("%s: %v", o.id(), err)
	}
}

// objects are those of a kustomization, by kind and name.
type objects map[string]*object

// render has a kustomization of the checkout rendered and judged.
func render(t *testing.T, directory string) objects {
	t.Helper()
	return renderAt(t, filepath.Join(root(t), directory))
}

func renderAt(t *testing.T, directory string) objects {
	t.Helper()
	all := objects{}
	lines := json.NewDecoder(bytes.NewReader(judge(t, "kustomize", directory)))
	for lines.More() {
		var o object
		if err := lines.Decode(&o); err != nil {
			t.Fatal(err)
		}
		if all[o.id()] != nil {
			t.Errorf("%s is there twice", o.id())
		}
		all[o.id()] = &o
	}
	return all
}

// only is the one object of a kind.
func (all objects) only(t *testing.T, kind string) *object {
	t.Helper()
	var found *object
	for _, o := range all {
		if o.Kind == kind {
			if found != nil {
				t.Fatalf("there are %s and %s", found.id(), o.id())
			}
			found = o
		}
	}
	if found == nil {
		t.Fatalf("there is no %s", kind)
	}
	return found
}

// judge runs the command of that name and returns what it prints. What it finds wrong fails the test.
func judge(t *testing.T, args ...string) []byte {
	t.Helper()
	program, err := buildJudge()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, args...).Output()
	var status *exec.ExitError
	switch {
	case errors.As(err, &status):
		t.Fatalf("judge %s: %s", strings.Join(args, " "), status.Stderr)
	case err != nil:
		t.Fatal(err)
	}
	return out
}

// buildJudge is in .cache, where it stays: its packages are many, and none of the gateway's.
var buildJudge = sync.OnceValues(func() (program string, err error) {
	checkout, err := harness.Root()
	if err != nil {
		return "", err
	}
	cache := filepath.Join(checkout, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	program = filepath.Join(cache, "judge")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join(checkout, "integration", "manifests", "judge")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false", "GOGC=400")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the judge: %w\n%s", err, out)
	}
	return program, nil
})

func root(t *testing.T) string {
	t.Helper()
	checkout, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	return checkout
}
