package sdk

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/rock"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// Deployment is a running gateway with something behind it, as a user of an SDK sees it.
type Deployment struct {
	client.Deployment
	// Protocols counts the requests that arrived so far by protocol: "HTTP/1.1" or "HTTP/2.0".
	Protocols func() map[string]int
}

// startDeployment runs the real binary in front of the ROCK double. Over TLS, and with envd in the sandbox, the SDK is told a domain and
// nothing else; otherwise two URLs that are the same.
func startDeployment(t testing.TB, over transport, as profile) Deployment {
	t.Helper()
	options := rock.Options{TempDir: t.TempDir()}
	if as == onEnvd {
		options.Envd = envd.In
	}
	cluster, err := rock.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Errorf("closing the double: %v", err)
		}
	})
	address := map[rock.Role]string{}
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		server, err := cluster.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		address[role] = server.URL()
	}
	domain := ""
	if as == onEnvd && over != cleartextH1 {
		domain = "domain " + harness.Domain + ":" + harness.Port
	}
	gateway := harness.Binary(t, fmt.Sprintf(`{
	e2b {
		keys off
		%s
		cluster test {
			admin %s
			proxy %s
		}
	}
}
:80 {
	log
	e2b
}
`, domain, address[rock.Admin], address[rock.Proxy]), map[transport]harness.Transport{
		cleartextH1: harness.Cleartext,
		tlsH1:       harness.TLS1,
		tlsH2:       harness.TLS2,
	}[over])
	told := client.Deployment{
		APIURL: gateway.URL, SandboxURL: gateway.URL, CAFile: gateway.CAFile,
		APIKey:     "e2b_" + strings.Repeat("0a", 20),
		TemplateID: "python:3.11",
	}
	if domain != "" {
		told.Domain = harness.Domain + gateway.URL[strings.LastIndex(gateway.URL, ":"):]
	}
	return Deployment{told, func() map[string]int { return countProtocols(gateway.Logs()) }}
}

// countProtocols reads the gateway's access log.
func countProtocols(log string) map[string]int {
	counted := map[string]int{}
	lines := bufio.NewScanner(strings.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct {
			Logger  string `json:"logger"`
			Request struct {
				Proto string `json:"proto"`
			} `json:"request"`
		}
		if json.Unmarshal(lines.Bytes(), &entry) == nil && strings.HasPrefix(entry.Logger, "http.log.access") {
			counted[entry.Request.Proto]++
		}
	}
	return counted
}
