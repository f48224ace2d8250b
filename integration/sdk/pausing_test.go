package sdk

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/integration/rock"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// One process makes a sandbox, another one connects to it, pauses it, starts it again with its files and ends it; and what a
// create cannot have is refused by name. With ROCK's own Redis as the registry, which forgets a sandbox that is stopped, and
// without, where a sandbox that starts looks like one that runs.
func TestASandboxIsPausedAndResumedAcrossProcesses(t *testing.T) {
	for _, registry := range []string{"redis", "control"} {
		t.Run(registry, func(t *testing.T) {
			t.Parallel()
			d := startPausing(t, registry)
			t.Run("of", func(t *testing.T) {
				for _, c := range client.All {
					if registry == "control" && c.Name != "py-2.34.0-sync" && c.Name != "js-2.51.0" {
						continue // SDKs do not differ by what is behind the gateway
					}
					t.Run(c.Name, func(t *testing.T) {
						t.Parallel()
						id := strings.ReplaceAll(c.Name, ".", "-")
						for _, step := range []string{"make", "use"} {
							t.Run(step, func(t *testing.T) {
								start(t, c, d, 2*time.Minute, "pausing", "--step", step, "--id", id).report(t, pausingChecks[step])
							})
						}
					})
				}
			})
		})
	}
}

// startPausing runs the real binary with keys and a domain, in front of a double whose restarts take a moment.
func startPausing(t *testing.T, registry string) Deployment {
	t.Helper()
	options := rock.Options{TempDir: t.TempDir(), StartDelay: 300 * time.Millisecond}
	option := ""
	if registry == "redis" {
		server := redistest.Start(t, redistest.Options{})
		records := goredis.NewClient(&goredis.Options{Addr: server.Addr})
		t.Cleanup(func() { records.Close() })
		options.Records = rock.RedisStrings{Client: records}
		option = "registry redis {\naddress " + server.Addr + "\n}"
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
	roles := ""
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		server, err := cluster.Serve(role, "")
		if err != nil {
			t.Fatal(err)
		}
		roles += fmt.Sprintf("%s %s\n", role, server.URL())
	}
	key := "e2b_" + strings.Repeat("0a", 20)
	files := t.TempDir()
	for name, content := range map[string]string{
		"keys.json": fmt.Sprintf(`{"keys": [{"digest": %q, "subject": "alice"}]}`, auth.DigestOf(key).String()),
		"secret":    strings.Repeat("s", auth.MinTokenSecret),
	} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gateway := harness.Binary(t, fmt.Sprintf(`{
	e2b {
		keys file %[1]s/keys.json
		tokens {
			key k {file.%[1]s/secret}
		}
		domain sandbox.example.com
		%[2]s
		cache {
			lookup_timeout 10s
		}
		cluster test {
			%[3]s
			resume restart
			pause stop
		}
	}
}
:80 {
	log
	e2b
}
`, files, option, roles), harness.Cleartext)
	return Deployment{Deployment: client.Deployment{APIURL: gateway.URL, SandboxURL: gateway.URL, APIKey: key, TemplateID: "python:3.11"}}
}
