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
	for name, c := range map[string]struct {
		domain  string
		cluster e2bcaddyfile.ClusterConfig
		want    string // of the warning, "" for none
	}{
		"no networks":                    {"sandbox.test", e2bcaddyfile.ClusterConfig{}, "needs allow"},
		"networks":                       {"sandbox.test", e2bcaddyfile.ClusterConfig{Allow: network}, ""},
		"no domain, and so no such host": {"", e2bcaddyfile.ClusterConfig{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			a := &App{logger: zap.New(core)}
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
