package module

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

func TestHostsThatLeadNowhereAreWarnedOf(t *testing.T) {
	network := []string{"10.20.0.0/16"}
	redis, control := &RedisRegistry{}, &ControlRegistry{}
	for name, c := range map[string]struct {
		domain   string
		registry RegistryModule
		cluster  e2bcaddyfile.ClusterConfig
		want     string // of the warning, "" for none
	}{
		"no networks":                    {"sandbox.test", redis, e2bcaddyfile.ClusterConfig{}, "needs allow"},
		"no registry with ports":         {"sandbox.test", control, e2bcaddyfile.ClusterConfig{Allow: network}, "needs registry redis"},
		"no port that is not mapped":     {"sandbox.test", control, e2bcaddyfile.ClusterConfig{Allow: network, UnmappedPorts: "refuse"}, "needs registry redis"},
		"ports of pods":                  {"sandbox.test", control, e2bcaddyfile.ClusterConfig{Allow: network, UnmappedPorts: "dial"}, ""},
		"a registry with ports":          {"sandbox.test", redis, e2bcaddyfile.ClusterConfig{Allow: network}, ""},
		"no domain, and so no such host": {"", control, e2bcaddyfile.ClusterConfig{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			a := &App{logger: zap.New(core), registries: []RegistryModule{c.registry}}
			if c.domain != "" {
				a.Domains = []string{c.domain}
			}
			c.cluster.Name = "one"
			a.Clusters = []*e2bcaddyfile.ClusterConfig{&c.cluster}
			a.adviseHosts()
			if c.want == "" {
				if logs.Len() != 0 {
					t.Errorf("%v", logs.All())
				}
				return
			}
			if logs.Len() != 1 || !strings.Contains(logs.All()[0].Message, c.want) || logs.All()[0].ContextMap()["cluster"] != "one" {
				t.Errorf("%v, want %q", logs.All(), c.want)
			}
		})
	}
}
