package manifests

import (
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

const (
	configDirectory = "/etc/e2b-gateway"
	secretDirectory = "/run/secrets/e2b-gateway"
)

// each runs a test for every kustomization.
func each(t *testing.T, test func(t *testing.T, all objects, p *pod, byHand string)) {
	for name, k := range kustomizations {
		t.Run(name, func(t *testing.T) {
			all := render(t, k.directory)
			test(t, all, podOf(t, all), k.byHand)
		})
	}
}

// caddyfile is what the gateway of a kustomization runs.
func caddyfile(t *testing.T, all objects, p *pod) string {
	t.Helper()
	c := p.gateway(t)
	if len(c.Args) != 3 || c.Args[2] != configDirectory+"/Caddyfile" {
		t.Fatalf("the gateway is started with %q", c.Args)
	}
	return all[p.from(t, c, configDirectory)].Data["Caddyfile"]
}

// Judging them, which rendering does, is most of this test.
func TestNothingThatIsNamedIsMissing(t *testing.T) {
	each(t, func(t *testing.T, all objects, p *pod, byHand string) {
		there := func(id string) {
			t.Helper()
			if all[id] == nil && id != byHand {
				t.Errorf("there is no %s", id)
			}
		}
		c := p.gateway(t)
		there(p.from(t, c, configDirectory))
		there(p.from(t, c, secretDirectory))
		if p.Spec.ServiceAccountName != "" {
			there("ServiceAccount/" + p.Spec.ServiceAccountName)
		}
		if p.Spec.AutomountServiceAccountToken == nil || *p.Spec.AutomountServiceAccountToken {
			t.Error("the pods are given a token of the API server")
		}
		if !c.SecurityContext.ReadOnlyRootFilesystem {
			t.Error("the gateway can write to its image")
		}
		for _, o := range all {
			switch o.Kind {
			case "Service":
				var spec struct {
					Selector map[string]string
					Ports    []struct{ TargetPort string }
				}
				o.spec(t, &spec)
				selects(t, o, spec.Selector, p)
				for _, port := range spec.Ports {
					named(t, o, port.TargetPort, p)
				}
			case "PodDisruptionBudget":
				var spec struct{ Selector selector }
				o.spec(t, &spec)
				selects(t, o, spec.Selector.MatchLabels, p)
			case "NetworkPolicy":
				var spec struct {
					PodSelector selector
					Ingress     []struct{ Ports []struct{ Port string } }
				}
				o.spec(t, &spec)
				selects(t, o, spec.PodSelector.MatchLabels, p)
				for _, rule := range spec.Ingress {
					for _, port := range rule.Ports {
						named(t, o, port.Port, p)
					}
				}
			case "HorizontalPodAutoscaler":
				var spec struct{ ScaleTargetRef struct{ Kind, Name string } }
				o.spec(t, &spec)
				there(spec.ScaleTargetRef.Kind + "/" + spec.ScaleTargetRef.Name)
			case "Ingress":
				for _, service := range regexp.MustCompile(`"service":\{"name":"([^"]*)"`).FindAllStringSubmatch(string(o.Spec), -1) {
					there("Service/" + service[1])
				}
			}
		}
	})
}

type selector struct{ MatchLabels map[string]string }

// selects checks that an object finds the pods.
func selects(t *testing.T, o *object, labels map[string]string, p *pod) {
	t.Helper()
	for name, value := range labels {
		if p.Metadata.Labels[name] != value {
			t.Errorf("%s looks for pods with %s: %s, and they have %v", o.id(), name, value, p.Metadata.Labels)
		}
	}
	if len(labels) == 0 {
		t.Errorf("%s finds every pod", o.id())
	}
}

func named(t *testing.T, o *object, port string, p *pod) {
	t.Helper()
	if p.port(port) == 0 {
		t.Errorf("%s means the port %q, which the pods do not have", o.id(), port)
	}
}

func TestAPodIsGivenTheTimeThatItsGatewayMayTake(t *testing.T) {
	each(t, func(t *testing.T, all objects, p *pod, _ string) {
		c := p.gateway(t)
		sleep := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
		delay, grace := stopping(t, caddyfile(t, all, p))
		allowed := time.Duration(p.Spec.TerminationGracePeriodSeconds) * time.Second
		if takes := sleep + delay + grace; takes+10*time.Second > allowed {
			t.Errorf("a pod has %v, and its gateway takes %v", allowed, takes)
		}
		// It must have been found to leave before it refuses anything.
		if noticed := time.Duration(c.ReadinessProbe.FailureThreshold*c.ReadinessProbe.PeriodSeconds+c.ReadinessProbe.TimeoutSeconds) * time.Second; noticed >= delay {
			t.Errorf("it takes %v until the kubelet sees that a gateway leaves, and shutdown_delay is %v", noticed, delay)
		}
		// What it has running in the pod goes through the others.
		for _, other := range p.Spec.Containers {
			if waits := time.Duration(other.Lifecycle.PreStop.Sleep.Seconds) * time.Second; other.Name != c.Name && (waits < sleep+delay+grace || waits >= allowed) {
				t.Errorf("%s is stopped after %v, while the gateway may need it for %v", other.Name, waits, sleep+delay+grace)
			}
		}
	})
}

// With the very Caddyfile, all ports of the container are listened on, and both probes are answered.
func TestTheGatewayListensWhereItsPodSays(t *testing.T) {
	each(t, func(t *testing.T, all objects, p *pod, _ string) {
		g := harness.Binary(t, withSecrets(t, all, p))
		c := p.gateway(t)
		for _, port := range c.Ports {
			g.URLOf(":" + strconv.Itoa(port.ContainerPort))
		}
		for _, probe := range []probe{c.ReadinessProbe, c.LivenessProbe} {
			url := g.URLOf(":"+strconv.Itoa(p.port(probe.HTTPGet.Port))) + probe.HTTPGet.Path
			resp, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			// Nothing of ROCK and no Redis is there: a gateway that has never seen them is alive, and not ready.
			want := http.StatusOK
			if probe == c.ReadinessProbe {
				want = http.StatusServiceUnavailable
			}
			if resp.StatusCode != want {
				t.Errorf("%s: %d", probe.HTTPGet.Path, resp.StatusCode)
			}
		}
		// Beside the probes, Prometheus.
		resp, err := http.Get(g.URLOf(":"+strconv.Itoa(p.port(c.ReadinessProbe.HTTPGet.Port))) + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "e2b_gateway_") {
			t.Errorf("no metrics: %d, %v", resp.StatusCode, err)
		}
	})
}

// Every secret in the Caddyfile is a file of the Secret.
func TestTheSecretHasWhatTheCaddyfileReads(t *testing.T) {
	all := render(t, kustomizations["deployment"].directory)
	p := podOf(t, all)
	secret := all[p.from(t, p.gateway(t), secretDirectory)].StringData
	read := secretsIn(caddyfile(t, all, p))
	if len(read) != len(secret) {
		t.Errorf("the Caddyfile reads %v, and the Secret has %v", read, slices.Sorted(maps.Keys(secret)))
	}
	for _, name := range read {
		if text, ok := secret[name]; !ok || strings.Contains(text, "e2b_") {
			t.Errorf("%s in the Secret: %t", name, ok)
		}
	}
}

// secretsIn are the files below secretDirectory that a Caddyfile names.
func secretsIn(caddyfile string) (names []string) {
	for _, found := range regexp.MustCompile(regexp.QuoteMeta(secretDirectory)+`/([\w.-]+)`).FindAllStringSubmatch(caddyfile, -1) {
		names = append(names, found[1])
	}
	return names
}

// withSecrets is the Caddyfile with files that are there, of a gateway that goes at once.
func withSecrets(t *testing.T, all objects, p *pod) string {
	t.Helper()
	text, dir := caddyfile(t, all, p), t.TempDir()
	for _, name := range secretsIn(text) {
		secret := strings.Repeat("k", 32)
		if strings.HasSuffix(name, ".json") {
			secret = `{"keys": []}`
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return strings.NewReplacer(secretDirectory, dir, "shutdown_delay 10s\n", "shutdown_delay 0s\n").Replace(text)
}
