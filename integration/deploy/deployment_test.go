package deploy

import (
	"fmt"
	"testing"

	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// deployment is what a gateway stands in front of: a cluster for SDKs and a
// ticker for the crowd.
type deployment struct {
	*ticker
	admin, proxy string
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	cluster, err := rock.New(rock.Options{TempDir: t.TempDir(), Envd: envd.In[*rock.Sandbox]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Errorf("closing the double: %v", err)
		}
	})
	d := &deployment{ticker: newTicker(t)}
	for role, address := range map[rock.Role]*string{rock.Admin: &d.admin, rock.Proxy: &d.proxy} {
		server, err := cluster.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		*address = server.URL()
	}
	return d
}

// wrapper is the global option with the listener wrapper.
const wrapper = "servers {\nlistener_wrappers {\ne2b {\nmax_concurrent_streams 5000\n}\n}\n}"

// caddyfile is a config: its global options, options of e2b, and more in the
// site.
func (d *deployment) caddyfile(global, e2b, site string) string {
	return fmt.Sprintf(`{
	%s
	e2b {
		keys off
		%s
		cluster sdk {
			admin %s
			proxy %s
			registry control
		}
		cluster crowd {
			admin %[5]s
			proxy %[5]s
			registry static {
				sandbox crowd {
					host 127.0.0.1
				}
			}
		}
	}
}
:8080 {
	%[6]s
	e2b
}
`, global, e2b, d.admin, d.proxy, d.URL, site)
}
