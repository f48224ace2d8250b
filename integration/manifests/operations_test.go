package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const operations = "docs/operations.md"

func TestThePageForOperatorsHasTheTimesOfTheFiles(t *testing.T) {
	page := read(t, operations)
	all := render(t, kustomizations["deployment"].directory)
	p := podOf(t, all)
	delay, grace := stopping(t, caddyfile(t, all, p))
	if d, g := stopping(t, read(t, "deploy/haproxy/Caddyfile")); d != delay || g != grace {
		t.Errorf("a gateway behind HAProxy takes %v and %v to stop, and a pod %v and %v", d, g, delay, grace)
	}
	for _, says := range []string{
		fmt.Sprintf("`preStop` (%d s) + `shutdown_delay` (%.0f s) + `grace_period` (%.0f min) are less than `terminationGracePeriodSeconds` (%d)",
			p.gateway(t).Lifecycle.PreStop.Sleep.Seconds, delay.Seconds(), grace.Minutes(), p.Spec.TerminationGracePeriodSeconds),
		fmt.Sprintf("| `shutdown_delay` (%.0f s) |", delay.Seconds()),
		fmt.Sprintf("before the end of `grace_period` (%.0f min)", grace.Minutes()),
		fmt.Sprintf("With a `grace_period` of %.0f minutes", grace.Minutes()),
	} {
		if !strings.Contains(page, says) && !strings.Contains(page, strings.ToLower(says[:1])+says[1:]) {
			t.Errorf("%s does not say: %s", operations, says)
		}
	}
	limit := regexp.MustCompile(`(?m)^LimitNOFILE=(\d+)(\d{3})(\d{3})$`).FindStringSubmatch(read(t, "deploy/systemd/e2b-gateway.service"))
	if limit == nil || !strings.Contains(page, "`LimitNOFILE` in the unit is "+strings.Join(limit[1:], ",")) {
		t.Errorf("%s does not say what LimitNOFILE is: %q", operations, limit)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)]*)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	shipped = regexp.MustCompile("deploy/[A-Za-z0-9/._-]*[A-Za-z0-9]")
)

func TestWhatThePageForOperatorsNamesIsThere(t *testing.T) {
	page := read(t, operations)
	for _, found := range link.FindAllStringSubmatch(page, -1) {
		file, anchor, _ := strings.Cut(found[1], "#")
		if strings.Contains(file, "://") {
			continue
		}
		name := operations
		if file != "" {
			name = filepath.Join("docs", file)
		}
		info, err := os.Stat(filepath.Join(root(t), name))
		if err != nil {
			t.Errorf("a link leads nowhere: %v", err)
			continue
		}
		if anchor != "" && !info.IsDir() && !anchors(read(t, name))[anchor] {
			t.Errorf("%s has no heading for #%s", name, anchor)
		}
	}
	for _, name := range shipped.FindAllString(page, -1) {
		if _, err := os.Stat(filepath.Join(root(t), name)); err != nil && !strings.HasPrefix(name, "deploy/e2b") {
			t.Errorf("%v", err)
		}
	}
}

// anchors are what the headings of a page can be found by.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(page, -1) {
		words := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all[strings.ReplaceAll(words, " ", "-")] = true
	}
	return all
}

// Whoever copies the overlay out of the page gets his image, his Caddyfile under the name that pods mount, and no Secret.
func TestTheOverlayOnThePageMakesTheChangesOfTheOperator(t *testing.T) {
	found := regexp.MustCompile("(?s)<!-- overlay -->\n```yaml\n(.*?)```").FindStringSubmatch(read(t, operations))
	if found == nil {
		t.Fatalf("%s has no overlay", operations)
	}
	overlay := t.TempDir()
	base, err := filepath.Rel(overlay, root(t))
	if err != nil {
		t.Fatal(err)
	}
	const caddyfile = "# mine\n"
	for name, content := range map[string]string{"kustomization.yaml": strings.Replace(found[1], "../e2b-gateway/", base+"/", 1), "Caddyfile": caddyfile} {
		if err := os.WriteFile(filepath.Join(overlay, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shipped, all := render(t, kustomizations["deployment"].directory), renderAt(t, overlay)
	p := podOf(t, all)
	if image := p.gateway(t).Image; image != "registry.mine.example/e2b-gateway:1.2.3" {
		t.Errorf("the image is %s", image)
	}
	if got := all[p.from(t, p.gateway(t), configDirectory)]; got == nil || got.Data["Caddyfile"] != caddyfile {
		t.Errorf("the pods have %+v", got)
	}
	if strings.Contains(string(all.only(t, "Ingress").Spec), "sandbox.example.com") {
		t.Errorf("the Ingress has the names that are shipped: %s", all.only(t, "Ingress").Spec)
	}
	for id := range shipped {
		if (all[id] == nil) != (id == "Secret/e2b-gateway") {
			t.Errorf("%s: %v", id, all[id])
		}
	}
	if len(all) != len(shipped)-1 {
		t.Errorf("there are %d objects, and %d are shipped", len(all), len(shipped))
	}
}
