package clusters

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

// API keys of the tests.
const (
	alice = "e2b_a11ce00000"
	bob   = "e2b_b0b0000000"
	root  = "e2b_4d41400000"
)

// deployment is one ROCK with a Redis of its own.
type deployment struct {
	*rock.Cluster
	redis        *redistest.Server
	admin, proxy *rock.Server
}

// deploy starts a ROCK.
func deploy(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{redis: redistest.Start(t, redistest.Options{})}
	records := goredis.NewClient(&goredis.Options{Addr: d.redis.Addr})
	t.Cleanup(func() { records.Close() })
	var err error
	if d.Cluster, err = rock.New(rock.Options{TempDir: t.TempDir(), Records: rock.RedisStrings{Client: records}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if d.admin, err = d.Serve(rock.Admin, ""); err != nil {
		t.Fatal(err)
	}
	if d.proxy, err = d.Serve(rock.Proxy, ""); err != nil {
		t.Fatal(err)
	}
	return d
}

// die takes everything of the deployment away at once.
func (d *deployment) die() {
	_ = d.admin.Close()
	_ = d.proxy.Close()
	d.redis.Stop()
}

// block is the deployment in a Caddyfile.
func (d *deployment) block(name, options string) string {
	return fmt.Sprintf("\t\tcluster %s {\n\t\t\tadmin %s\n\t\t\tproxy %s\n\t\t\tregistry redis {\n\t\t\t\taddress %s\n\t\t\t}\n%s\n\t\t}\n",
		name, d.admin.URL(), d.proxy.URL(), d.redis.Addr, options)
}

// site is a Caddyfile with the clusters.
func site(t *testing.T, blocks ...string) string {
	t.Setenv("TOKEN_KEY", strings.Repeat("k", 32))
	return fmt.Sprintf(`{
	e2b {
		keys static {
			key %s alice
			key %s bob
			key %s root {
				scopes admin
			}
		}
		tokens {
			key a {env.TOKEN_KEY}
		}
%s	}
}
:80 {
	e2b
}
`, auth.DigestOf(alice), auth.DigestOf(bob), auth.DigestOf(root), strings.Join(blocks, ""))
}

// post makes a sandbox without an SDK and returns its id.
func post(t *testing.T, c *http.Client, url, key string, metadata map[string]string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"templateID": "python:3.11", "timeout": 600, "metadata": metadata})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/sandboxes", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-Key", key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	var made struct{ SandboxID string }
	if err := json.Unmarshal(answer, &made); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", resp.StatusCode, answer)
	}
	return made.SandboxID
}

// asker is a program with an SDK that does what it is asked.
type asker struct {
	t *testing.T
	*client.Process
	in io.WriteCloser
}

// ask is an order to it; see asks.py.
type ask struct {
	Do       string            `json:"do"`
	Key      string            `json:"key"`
	Cluster  string            `json:"cluster,omitempty"`
	ID       string            `json:"id,omitempty"`
	Command  string            `json:"command,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	State    []string          `json:"state,omitempty"`
	Limit    int               `json:"limit,omitempty"`
}

// said is its answer.
type said struct {
	Value json.RawMessage
	Class string
	Text  string
}

// listed is the value of a list.
type listed struct {
	IDs   []string
	Pages int
	First []any
}

func newAsker(t *testing.T, by client.Client, g *harness.Gateway) *asker {
	t.Helper()
	out, in := io.Pipe()
	a := &asker{t: t, in: in}
	a.Process = client.Start(t, by, client.Deployment{APIURL: g.URL, SandboxURL: g.URL, CAFile: g.CAFile, APIKey: alice, TemplateID: "python:3.11"},
		client.Program{Folder: "integration/sdk", Name: "asks", Stdin: out, Limit: 5 * time.Minute})
	t.Cleanup(func() {
		in.Close()
		a.Kill()
	})
	return a
}

func (a *asker) ask(order ask) (answer said) {
	a.t.Helper()
	line, err := json.Marshal(order)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		a.t.Fatal(err)
	}
	if !a.Out.Scan() {
		a.t.Fatalf("the program ended: %v\n%s", a.Out.Err(), a.Stderr())
	}
	if err := json.Unmarshal(a.Out.Bytes(), &answer); err != nil {
		a.t.Fatalf("%q: %v", a.Out.Text(), err)
	}
	return answer
}

// value asks for something that must not raise.
func (a *asker) value(order ask, into any) {
	a.t.Helper()
	answer := a.ask(order)
	if answer.Class != "" {
		a.t.Errorf("%+v raised %s: %s", order, answer.Class, answer.Text)
		return
	}
	if err := json.Unmarshal(answer.Value, into); err != nil {
		a.t.Errorf("%+v: %s: %v", order, answer.Value, err)
	}
}

// raises asks for something that must raise, with the text in the exception.
func (a *asker) raises(order ask, text string) {
	a.t.Helper()
	if answer := a.ask(order); answer.Class == "" || !strings.Contains(answer.Text, text) {
		a.t.Errorf("%+v: %s %s %s, want %q", order, answer.Value, answer.Class, answer.Text, text)
	}
}

// list is all pages of a list.
func (a *asker) list(order ask) (got listed) {
	a.t.Helper()
	order.Do = "list"
	a.value(order, &got)
	return got
}
