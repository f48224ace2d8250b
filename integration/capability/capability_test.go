package capability

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/rock"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// TestEveryCall makes every call from every SDK against every deployment. A subtest is named after all three.
func TestEveryCall(t *testing.T) {
	for _, m := range modes {
		g := readGolden(t, m)
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			d := open(t, m)
			t.Run("by", func(t *testing.T) {
				for _, c := range client.All {
					t.Run(c.Name, func(t *testing.T) {
						t.Parallel()
						d.check(t, c.Name, d.ask(t, c), g)
					})
				}
			})
			g.write(t)
		})
	}
}

// TestHostsOfSandboxesByControl reaches ports of sandboxes without access to ROCK's records.
func TestHostsOfSandboxesByControl(t *testing.T) {
	d := open(t, byControl)
	for _, name := range []string{"py-newest-sync", "js-2.51.0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := d.ask(t, client.Named(t, name))
			for _, call := range []string{"get_host_http", "get_host_tunnel", "get_host_sse", "get_host_websocket", "get_host_grpc"} {
				if seen[call].Outcome != works {
					t.Errorf("%s: %v", call, seen[call])
				}
			}
		})
	}
}

// check holds what a client saw against testdata and against what is promised.
func (d *deployment) check(t *testing.T, by string, seen map[string]told, g *golden) {
	t.Helper()
	everyCall(func(c call) {
		t.Run(c.Name, func(t *testing.T) {
			got, ok := seen[c.Name]
			if !ok {
				t.Fatal("the program says nothing about it")
			}
			if d.mode != alone {
				promise(t, d.mode, by, c.Name, got)
			}
			g.check(t, by, c.Name, got)
		})
	})
}

// ask runs the program of one SDK and returns what became of each call.
func (d *deployment) ask(t *testing.T, by client.Client) map[string]told {
	t.Helper()
	listen, speak, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer speak.Close()
	p := client.Start(t, by, d.Deployment, client.Program{Folder: "integration/capability", Name: "capability", Stdin: listen, Limit: 4 * time.Minute})
	listen.Close()
	defer p.Kill()
	// Without a sandbox there is no host to ask.
	seen := map[string]told{"get_host_websocket": {Outcome: unreached}, "get_host_grpc": {Outcome: unreached}}
	sandbox := ""
	for p.Out.Scan() {
		var line told
		if err := json.Unmarshal(p.Out.Bytes(), &line); err != nil {
			t.Fatalf("%q: %v", p.Out.Text(), err)
		}
		switch {
		case line.Stop != "":
			if err := d.cluster.Sandbox(line.Stop).Stop(rock.Stopped); err != nil {
				t.Fatal(err)
			}
		case line.Sandbox != "":
			sandbox = line.Sandbox
			serveInside(t, d.cluster.Sandbox(sandbox))
			d.askHost(t, line.Host, seen)
		default:
			line.Text = d.clean(line.Text, sandbox)
			seen[line.Call] = line
			continue
		}
		if _, err := speak.WriteString("\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Wait(); err != nil || seen["end"].Outcome != works {
		t.Errorf("the program ended early: %v\n%s", err, p.Stderr())
	}
	return seen
}

// askHost makes the calls that no standard library of the SDKs' languages can make.
func (d *deployment) askHost(t *testing.T, host string, seen map[string]told) {
	t.Helper()
	if d.Domain == "" {
		seen["get_host_websocket"], seen["get_host_grpc"] = told{Outcome: elsewhere}, told{Outcome: elsewhere}
		return
	}
	outcome := func(err error) told {
		if err != nil {
			return told{Outcome: wrong, Text: d.clean(err.Error(), "")}
		}
		return told{Outcome: works}
	}
	seen["get_host_websocket"] = outcome(askSocket(&d.gateway.Endpoint, host))
	seen["get_host_grpc"] = told{Outcome: absent} // it is made of HTTP/2
	if d.mode.transport() == harness.TLS2 {
		seen["get_host_grpc"] = outcome(askGRPC(t.Context(), &d.gateway.Endpoint, host))
	}
}
