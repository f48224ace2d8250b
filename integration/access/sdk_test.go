package access

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// generation is how an SDK calls what it raises.
type generation struct {
	authentication, notFound, general string
	// goneStream and gone are for a sandbox that is not there: for commands, and
	// for everything else in it.
	goneStream, gone string
	// checksKeys: the SDK itself refuses keys that do not look like any.
	checksKeys bool
	// everywhere: it runs over cleartext, too.
	everywhere bool
}

var (
	python234 = generation{"AuthenticationException", "SandboxNotFoundException", "SandboxException", "TimeoutException", "TimeoutException", true, false}
	pythonNew = generation{"AuthenticationException", "SandboxNotFoundException", "SandboxException", "SandboxNotRunningException", "SandboxNotRunningException", false, false}
	js        = generation{"AuthenticationError", "SandboxNotFoundError", "SandboxError", "SandboxNotFoundError", "TimeoutError", false, false}
)

func (g generation) checking() generation { g.checksKeys = true; return g }
func (g generation) oftener() generation  { g.everywhere = true; return g }

// columns are the SDKs.
var columns = map[string]generation{
	"py-2.34.0-sync":  python234.oftener(),
	"py-2.34.0-async": python234,
	"py-newest-sync":  pythonNew.oftener(),
	"py-newest-async": pythonNew,
	"js-2.34.0":       js.checking(),
	"js-2.50.0":       js,
	"js-2.51.0":       js.oftener(),
}

// Whoever adds an SDK to those that are promised adds a column.
func TestEverySDKHasAColumn(t *testing.T) {
	for _, c := range client.All {
		if _, ok := columns[c.Name]; !ok {
			t.Errorf("%s has no column", c.Name)
		}
	}
}

// told is what a program prints of a cell.
type told struct {
	Cell  string `json:"cell"`
	Value any    `json:"value"`
	Class string `json:"class"`
	Text  string `json:"text"`
}

// Calls of the programs, by plane.
var (
	controlCells = []string{"create", "list", "get_info", "set_timeout", "connect", "get_metrics", "create_snapshot", "pause", "kill", "get_info_checked"}
	dataCells    = []string{"run", "write", "read", "list_dir", "exists", "list_processes", "is_running", "signed_write", "signed_read"}
)

// want is the table: what an SDK makes of a call. A text is contained in that of
// the exception.
func (g generation) want(c *cast, with credential, call string) (w told) {
	raised := func(class, text string) told { return told{Class: class, Text: text} }
	if slices.Contains(controlCells, call) {
		switch {
		case with == none:
			return raised(g.authentication, "API key is required") // the SDK asks nobody
		case with == malformed && call == "get_info_checked" && g.checksKeys:
			return raised(g.authentication, "Invalid API key format")
		case with != valid && with != foreign:
			return raised(g.authentication, keyRefused)
		case call == "create":
			return told{Value: "made\n"}
		case with == foreign && call == "list":
			return told{Value: []any{}}
		case with == foreign && call == "kill":
			return told{Value: false}
		case with == foreign:
			return raised(g.notFound, "not found")
		}
		switch call {
		case "list":
			return told{Value: []any{c.mine()}}
		case "get_info", "get_info_checked":
			return told{Value: c.mine()}
		case "set_timeout":
			return told{}
		case "connect":
			return told{Value: "connected\n"}
		case "pause", "kill":
			return told{Value: true}
		default:
			return raised(g.general, "is not offered by this deployment")
		}
	}
	if call == "signed_write" || call == "signed_read" {
		refused := map[credential]string{none: signatureMissing, expired: signatureExpired}
		switch {
		case with == valid && call == "signed_read":
			return told{Value: "200 signed"}
		case with == valid:
			return told{Value: "200 ["}
		case refused[with] == "":
			refused[with] = signatureRefused
		}
		return told{Value: "401 " + plain(401, "", refused[with]).body}
	}
	switch {
	case with == valid:
		return told{Value: map[string]any{"run": "seen\n", "write": "/home/user/a", "read": "written", "list_dir": []any{"a"},
			"exists": true, "list_processes": "listed", "is_running": true}[call]}
	case with == none && call == "is_running":
		return told{Value: true}
	case with == expired && call == "is_running":
		return told{Value: false}
	case with == expired && call == "run":
		return raised(g.goneStream, "")
	case with == expired:
		return raised(g.gone, "was not found")
	case with == none && (call == "read" || call == "write"):
		return raised(g.authentication, signatureMissing)
	case with == none:
		return raised(g.authentication, tokenMissing)
	default:
		return raised(g.authentication, tokenRefused)
	}
}

// The matrix of the SDKs: every credential with every call that they make, over
// TLS with what each chooses of HTTP/2 and HTTP/1.1, and over cleartext.
func TestTheSDKMatrix(t *testing.T) {
	for _, transport := range []harness.Transport{harness.TLS2, harness.Cleartext} {
		t.Run(string(transport), func(t *testing.T) {
			t.Parallel()
			s := open(t, made, transport)
			casts := map[string]*cast{}
			for _, c := range client.All {
				if transport == harness.TLS2 || columns[c.Name].everywhere {
					casts[c.Name] = s.cast(t, strings.ReplaceAll(c.Name, ".", "-"))
				}
			}
			s.revoke(t)
			t.Run("of", func(t *testing.T) {
				for name, c := range casts {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						s.ask(t, client.Named(t, name), c)
					})
				}
			})
		})
	}
}

// ask runs the program of one SDK and holds what it saw against the table.
func (s *scene) ask(t *testing.T, by client.Client, c *cast) {
	type shown struct {
		Name   credential `json:"name"`
		Key    string     `json:"key"`
		Token  string     `json:"token"`
		Target string     `json:"target"`
	}
	input := map[string]any{"mine": c.mine(), "paused": c.paused(), "doomed": c.doomed(), "template": "python:3.11"}
	var list []shown
	for _, with := range credentials {
		next := shown{with, apiKeys[with], c.tokens[with], c.target(made, row{shape: unary}, with)}
		list = append(list, next)
	}
	input["credentials"] = list
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	p := client.Start(t, by, client.Deployment{APIURL: s.URL, SandboxURL: s.URL, CAFile: s.CAFile, APIKey: "none", TemplateID: "python:3.11"},
		client.Program{Folder: "integration/sdk", Name: "access", Stdin: strings.NewReader(string(text)), Limit: 3 * time.Minute})
	defer p.Kill()
	seen := map[string]told{}
	for p.Out.Scan() {
		var line told
		if err := json.Unmarshal(p.Out.Bytes(), &line); err != nil {
			t.Fatalf("%q: %v", p.Out.Text(), err)
		}
		seen[line.Cell] = line
	}
	if _, ended := seen["end"]; !ended {
		t.Errorf("the program ended early: %v\n%s", p.Wait(), p.Stderr())
	}
	for _, with := range credentials {
		for _, call := range slices.Concat(controlCells, dataCells) {
			cell := fmt.Sprintf("%s/%s", with, call)
			t.Run(cell, func(t *testing.T) {
				got, made := seen[cell]
				if want := columns[by.Name].want(c, with, call); !made || !want.fits(got) {
					t.Errorf("got %+v (%v), want %+v", got, made, want)
				}
			})
		}
	}
}

// fits reports a cell that is as it should be.
func (w told) fits(got told) bool {
	if w.Class != "" || got.Class != "" {
		return w.Class == got.Class && strings.Contains(got.Text, w.Text)
	}
	if text, ok := w.Value.(string); ok && text == "200 [" {
		have, _ := got.Value.(string)
		return strings.HasPrefix(have, text)
	}
	return fmt.Sprint(w.Value) == fmt.Sprint(got.Value)
}
