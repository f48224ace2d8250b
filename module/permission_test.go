package module_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// onDemand is a gateway that makes certificates when they are first needed.
func onDemand(address, storage, options string) string {
	return fmt.Sprintf(`{
	admin off
	skip_install_trust
	auto_https disable_redirects
	storage file_system %q
	on_demand_tls {
		permission e2b
	}
	e2b {
		keys off
		cluster default {
			admin http://127.0.0.1:1
			proxy http://127.0.0.1:1
		}
		registry static {
			sandbox live {
				state running
			}
			sandbox paused {
				state paused
			}
		}
		%s
	}
}
https://%s {
	bind 127.0.0.1
	tls internal {
		on_demand
	}
	e2b
}
`, storage, options, address)
}

func TestCertificatesOnDemandAreForLiveSandboxesOnly(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	adapted, err := inprocess.Adapt(onDemand(address[strings.LastIndex(address, ":"):], t.TempDir(), "domain box.test"))
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(adapted, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	for name, want := range map[string]bool{
		"box.test": true, "api.box.test": true, "49983-live.box.test": true,
		"49983-paused.box.test": false, "49983-nowhere.box.test": false, "22-live.box.test": false, "3000-live.box.test": false, // mode rock reaches envd's only
		"www.box.test": false, "49983-live.evil.test": false, "evil.test": false,
	} {
		conn, err := tls.Dial("tcp", address, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if err := conn.ConnectionState().PeerCertificates[0].VerifyHostname(name); err != nil {
			t.Error(err)
		}
		conn.Close()
	}
}

func TestCertificatesOnDemandNeedADomain(t *testing.T) {
	adapted, err := inprocess.Adapt(onDemand(":0", t.TempDir(), ""))
	if err != nil {
		t.Fatal(err)
	}
	err = caddy.Load(adapted, true)
	_ = caddy.Stop()
	if err == nil || !strings.Contains(err.Error(), "domain <name>") {
		t.Errorf("%v", err)
	}
}
