package manifests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-e2b/gateway/integration/harness"
	_ "github.com/caddy-e2b/gateway/module" // what the Caddyfiles configure
)

// stopping is how long a gateway works on after it is told to stop, and how long it then has.
func stopping(t *testing.T, caddyfile string) (delay, grace time.Duration) {
	t.Helper()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	var config caddy.Config
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	var app caddyhttp.App
	if err := json.Unmarshal(config.AppsRaw["http"], &app); err != nil {
		t.Fatal(err)
	}
	if app.GracePeriod <= 0 {
		t.Fatal("there is no grace_period")
	}
	return time.Duration(app.ShutdownDelay), time.Duration(app.GracePeriod)
}

func TestSystemdUnderstandsTheUnit(t *testing.T) {
	unit := read(t, "deploy/systemd/e2b-gateway.service")
	const program = "/usr/bin/e2b-gateway"
	if strings.Count(unit, program+" ") < 3 {
		t.Fatalf("the unit does not run %s", program)
	}
	// The programs of a unit must be there to be judged.
	file := filepath.Join(t.TempDir(), "e2b-gateway.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(unit, program+" ", harness.Build(t)+" ")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "e2b-gateway.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// 0 is what nothing can be exposed by, 10 what everything is.
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", file).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// As long as a stop may take with any of the Caddyfiles that the unit is for.
func TestSystemdWaitsForTheGateway(t *testing.T) {
	found := regexp.MustCompile(`(?m)^TimeoutStopSec=(\w+)$`).FindStringSubmatch(read(t, "deploy/systemd/e2b-gateway.service"))
	if found == nil {
		t.Fatal("the unit has no TimeoutStopSec")
	}
	allowed, err := time.ParseDuration(found[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"Caddyfile.example", "deploy/haproxy/Caddyfile"} {
		if delay, grace := stopping(t, read(t, file)); delay+grace+10*time.Second > allowed {
			t.Errorf("%s: a stop takes %v, and systemd waits for %v", file, delay+grace, allowed)
		}
	}
}

func TestTheContainerFileMakesAStaticBinaryForNobodyInParticular(t *testing.T) {
	var last, all []string
	build := ""
	for lines := json.NewDecoder(strings.NewReader(string(judge(t, "containerfile", filepath.Join(root(t), "deploy/container/Containerfile"))))); lines.More(); {
		var i struct{ Stage, Name, Text string }
		if err := lines.Decode(&i); err != nil {
			t.Fatal(err)
		}
		if i.Name == "FROM" {
			last = nil
		}
		last, all = append(last, i.Text), append(all, i.Text)
		if strings.Contains(i.Text, "go build") {
			build = i.Text
		}
	}
	if !strings.Contains(build, "CGO_ENABLED=0 ") || !strings.HasSuffix(build, " ./cmd/e2b-gateway") {
		t.Errorf("the binary is built by %q", build)
	}
	text := strings.Join(last, "\n")
	for _, want := range []string{"FROM scratch", "USER 65532:65532", `ENTRYPOINT ["/usr/bin/e2b-gateway"]`, "EXPOSE 8080 9180", "STOPSIGNAL SIGTERM", " TMPDIR=/data"} {
		if !strings.Contains(text, want) {
			t.Errorf("the image has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(strings.Join(all, "\n"), ":latest") {
		t.Error("an image is not pinned")
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
