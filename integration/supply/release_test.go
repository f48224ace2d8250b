package supply

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/version"
)

func read(t *testing.T, path ...string) string {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found is the first group of a pattern in a text.
func found(t *testing.T, what, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s has nothing like %s", what, pattern)
	}
	return m[1]
}

// tags leave out what the gateway has no use for, as in Caddy's own releases.
const tags = "nobadger,nomysql,nopgx"

// How a program is built decides its bytes. Whoever builds the tag of a
// release must get them again, so nothing of the machine may be among it: no
// directory, no time, no C compiler.
func TestAReleaseIsBuiltOfNothingButItsSources(t *testing.T) {
	script := read(t, "integration", "tools", "supply.sh")
	flags := strings.Fields(found(t, "supply.sh", script, `\nbuild\(\) \{ go build (.*) -o "\$1" \./cmd/e2b-gateway; \}`))
	if want := []string{"-trimpath", "-buildvcs=true", `-ldflags="-s`, `-w"`}; !slices.Equal(flags, want) {
		t.Errorf("a release is built with %q, want %q", flags, want)
	}
	settings := `export GOTOOLCHAIN GOFLAGS="-trimpath -tags=` + tags + `" GOFIPS140=off GOAMD64=v1 GOARM64=v8.0` + "\n"
	for _, want := range []string{settings, "CGO_ENABLED=0\n"} {
		if !strings.Contains(script, want) {
			t.Errorf("supply.sh has no %q", want)
		}
	}

	image := found(t, "the container file", read(t, "deploy", "container", "Containerfile"), `\nRUN (CGO_ENABLED=.* \./cmd/e2b-gateway)\n`)
	const pkg = "github.com/caddy-e2b/gateway/version"
	if want := `CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -trimpath -tags=` + tags + ` -ldflags="-s -w -X ` + pkg + `.release=${VERSION} -X ` + pkg +
		`.revision=${REVISION}" -o /out/e2b-gateway ./cmd/e2b-gateway`; image != want {
		t.Errorf("an image is built with\n%s\nwant\n%s", image, want)
	}

	if tested := found(t, "the Makefile", read(t, "Makefile"), `\nexport GOFLAGS := -tags=(.*)\n`); tested != tags {
		t.Errorf("what is tested is built with the tags %s, and a release with %s", tested, tags)
	}
}

// One Go builds and tests everything: the one with which no vulnerability was known.
func TestThereIsOneVersionOfGo(t *testing.T) {
	pinned := found(t, "the Makefile", read(t, "Makefile"), `\nexport GOTOOLCHAIN := go([0-9.]+)\n`)
	for what, is := range map[string]string{
		"go.mod":             found(t, "go.mod", read(t, "go.mod"), `\ntoolchain go([0-9.]+)\n`),
		"the container file": found(t, "the container file", read(t, "deploy", "container", "Containerfile"), `golang:([0-9.]+)-`),
		"the README":         found(t, "the README", read(t, "README.md"), `built and tested with Go ([0-9.]+)[,.]\s`),
	} {
		if is != pinned {
			t.Errorf("%s says Go %s, and the Makefile %s", what, is, pinned)
		}
	}
}

func TestTheBinarySaysWhichGatewayItIs(t *testing.T) {
	program := harness.Build(t)
	say := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(program, args...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return string(out)
	}
	var v version.Version
	if err := json.Unmarshal([]byte(say("gateway-version", "--json")), &v); err != nil {
		t.Fatal(err)
	}
	caddy := found(t, "go.mod", read(t, "go.mod"), `github.com/caddyserver/caddy/v2 (\S+)\n`)
	toolchain, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		t.Fatal(err)
	}
	if v.Gateway == "" || v.Revision == "" || v.Caddy != caddy || v.Go != strings.TrimSpace(string(toolchain)) {
		t.Errorf("gateway-version says %+v", v)
	}
	if got, want := say("version"), "e2b-gateway "+v.String()+" with Caddy "+caddy+" "; !strings.HasPrefix(got, want) {
		t.Errorf("version says %q, want %q", got, want)
	}
}

// The linker says nothing when a variable that it is to set is not there.
func TestAnImageSaysItsVersion(t *testing.T) {
	cmd := exec.Command("go", "run", "-buildvcs=false", "-ldflags=-X "+own+"/version.release=v1.2.3 -X "+own+"/version.revision=abc", "./testdata/image")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "v1.2.3 (revision abc, go") {
		t.Errorf("it says %q, %v", out, err)
	}
}
