package capability

import (
	"strings"

	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// told is one line of a program.
type told struct {
	// Call and Outcome are of a call.
	Call    string `json:"call"`
	Outcome string `json:"outcome"`
	Class   string `json:"class"`
	Text    string `json:"text"`
	Typed   bool   `json:"typed"`
	// Sandbox and Host are of the line that follows "create": the sandbox's id, and the host of its port 8000.
	Sandbox string `json:"sandbox"`
	Host    string `json:"host"`
	// Stop is the id of a sandbox that ROCK shall stop.
	Stop string `json:"stop"`
}

// Outcomes, as py/told.py has them.
const (
	works = "works"
	// raised is an exception.
	raised = "raised"
	// refused is an error status, for a request that the program made without the SDK.
	refused = "refused"
	// wrong is a result that is not what it should be.
	wrong = "wrong"
	// absent: the SDK has no such call, or the transport cannot carry it.
	absent = "absent"
	// elsewhere: the SDK names a host that is not this deployment's.
	elsewhere = "elsewhere"
	// unreached: what it needs failed before.
	unreached = "unreached"
)

// String is an outcome as testdata has it.
func (o told) String() string {
	if o.Class == "" && o.Text == "" {
		return o.Outcome
	}
	kind := o.Outcome
	if o.Outcome == raised && !o.Typed {
		kind = "raised raw"
	}
	return strings.TrimSpace(kind + " " + o.Class + ": " + o.Text)
}

// clean leaves out of a text what differs from run to run.
func (d *deployment) clean(text, sandbox string) string {
	for what, name := range map[string]string{
		sandbox: "<id>", strings.TrimPrefix(strings.TrimPrefix(d.APIURL, "http://"), "https://"): "<api>",
		strings.TrimPrefix(d.SandboxURL, "http://"): "<sandbox>", d.Domain: "<domain>",
	} {
		if what != "" {
			text = strings.ReplaceAll(text, what, name)
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

// clientNames are all SDKs.
func clientNames() (names []string) {
	for _, c := range client.All {
		names = append(names, c.Name)
	}
	return names
}
