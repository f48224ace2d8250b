package module

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/handlers/cause"
)

// explainCommand is the command "explain".
var explainCommand = caddycmd.Command{
	Name:  "explain",
	Usage: "<sandbox>|<url> [--method <name>] [--header <name: value>]… [--credential <header>] [--as <subject>] [--json]",
	Short: "Says what would become of a request, and why",
	Long: `Runs a request through the decisions of a running gateway, at its admin endpoint,
without sending it: which call it is, which sandbox it is for, where that is, who
may do it, and where it would go, or where it stops and what its client is told.

With the id of a sandbox it is a call that every SDK makes to a sandbox, by its
owner. With a URL it is the request that the options describe. The site that gets
it is said with --plane, where it serves one plane only.

A credential is not given as an argument, which every user of the machine sees:
--credential names the header, and its value is read from standard input. --as and
--as-owner ask as somebody without having their key.

	$ e2b-gateway explain 22a4939a61a9219d
	$ e2b-gateway explain https://api.example.com/sandboxes/22a4939a61a9219d --credential X-API-Key < key.txt

The exit code is 0 when the request would be sent on, or answered by the gateway
itself as a preflight is, 1 when it would be refused, and 2 when nobody can say.`,
	CobraFunc: func(cmd *cobra.Command) {
		cmd.Args = argument("the id of a sandbox, or a URL")
		cmd.Flags().StringP("method", "X", "", "the method (default: GET)")
		cmd.Flags().StringArrayP("header", "H", nil, "a header, as in 'E2b-Sandbox-Id: abc'")
		cmd.Flags().String("credential", "", "the name of a header whose value is on standard input")
		cmd.Flags().String("body", "", "the body")
		cmd.Flags().String("sandbox", "", "the id of the sandbox, for the header E2b-Sandbox-Id")
		cmd.Flags().Uint16("port", 0, "the port of the sandbox, for the header E2b-Sandbox-Port (default: envd's)")
		cmd.Flags().String("plane", "", "the plane that the site serves: control, data or both (default: both)")
		cmd.Flags().String("http", "", "the version of HTTP: 1.1 or 2 (default: 1.1)")
		cmd.Flags().String("as", "", "whose credential the request has")
		cmd.Flags().Bool("as-owner", false, "the request has the credential of the sandbox's owner")
		asksGateway(cmd)
		cmd.RunE = withArguments(explainRequest)
	},
}

var (
	errRefused       = errors.New("the request would be refused")
	errNobodyAnswers = errors.New("nobody can say at the moment: the registry or the store of keys does not answer")
)

func explainRequest(flags caddycmd.Flags, args []string) (int, error) {
	question, err := questionIn(flags, args[0])
	if err != nil {
		return cannotSay, err
	}
	var e handlers.Explanation
	if err := ask(flags, http.MethodPost, "/e2b/explain", nil, question, &e); err != nil {
		return cannotSay, err
	}
	if err := write(flags, e, func(to io.Writer) error { return printExplanation(to, &e) }); err != nil {
		return cannotSay, err
	}
	switch e.Cause {
	case cause.RegistryUnavailable.String(), cause.KeysUnavailable.String():
		return cannotSay, errNobodyAnswers
	}
	return said(e.Sent || answered(&e), errRefused)
}

// questionIn is the request that the flags describe.
func questionIn(flags caddycmd.Flags, of string) (q ExplainRequest, _ error) {
	port, err := flags.GetUint16("port")
	if err != nil {
		return q, err
	}
	q = ExplainRequest{
		Method: strings.ToUpper(flags.String("method")), Body: flags.String("body"), Plane: flags.String("plane"), HTTP: flags.String("http"),
		SandboxID: flags.String("sandbox"), SandboxPort: port, As: flags.String("as"), AsOwner: flags.Bool("as-owner"),
	}
	if err := q.aim(of); err != nil {
		return q, err
	}
	headers, err := flags.GetStringArray("header")
	if err != nil {
		return q, err
	}
	if q.Headers, err = headersIn(headers); err != nil {
		return q, err
	}
	if name := flags.String("credential"); name != "" {
		value, err := readKey(os.Stdin)
		if err != nil {
			return q, err
		}
		q.Headers[http.CanonicalHeaderKey(name)] = []string{value}
	}
	return q, nil
}

// aim takes a sandbox or a URL.
func (e *ExplainRequest) aim(of string) error {
	if !strings.Contains(of, "://") {
		if e.SandboxID != "" && e.SandboxID != of {
			return errors.New("--sandbox names another sandbox than the argument")
		}
		e.SandboxID = of
		return nil
	}
	u, err := url.Parse(of)
	if err != nil || u.Host == "" || u.User != nil {
		return errors.New("the URL cannot be read, or has a user in it")
	}
	if u.Query().Has("signature") {
		return errors.New("a signed URL opens files for who has it, and arguments are seen by every user of the machine: leave the signature out, and say --as-owner")
	}
	e.Host, e.Path = u.Host, u.RequestURI()
	return nil
}

// headersIn reads headers as they are given, and refuses credentials without
// repeating them.
func headersIn(lines []string) (map[string][]string, error) {
	headers := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, errors.New("a header is a name and a value: --header 'E2b-Sandbox-Id: abc'")
		}
		headers.Add(name, strings.TrimSpace(value))
	}
	for name, values := range auth.RedactHeader(headers) {
		if len(values) == 1 && values[0] == auth.Redacted {
			return nil, fmt.Errorf("a credential is seen by every user of the machine: --credential %s reads it from standard input", name)
		}
	}
	return headers, nil
}

// answered reports a request that the gateway answers itself, such as a preflight.
func answered(e *handlers.Explanation) bool { return !e.Sent && e.StopsAt == "" }

func printExplanation(to io.Writer, e *handlers.Explanation) error {
	rows := [][]string{{"STEP", "OUTCOME", "RESULT"}}
	for _, step := range e.Steps {
		result := "ok"
		if !step.OK {
			result = "stops"
		}
		rows = append(rows, []string{string(step.Name), result, step.Result})
	}
	if err := writeTable(to, rows...); err != nil {
		return err
	}
	if !e.Sent {
		verdict := "refused: " + shown(e.Cause)
		if answered(e) {
			verdict = "answered by the gateway itself"
		}
		fmt.Fprintf(to, "\n%s\n", verdict)
		if e.Answer != nil {
			_, err := fmt.Fprintf(to, "the client is told: %d %s\n", e.Answer.Status, shown(e.Answer.Message))
			return err
		}
		return nil
	}
	fmt.Fprintln(to, "\nsent to:")
	rows = [][]string{{"CLUSTER", "ROLE", "ADDRESS", "REQUEST"}}
	for _, try := range e.Tries {
		role := try.Role
		if try.Port != 0 {
			role = fmt.Sprintf("%s, port %d", role, try.Port)
		}
		rows = append(rows, []string{try.Cluster, role, try.Address, try.Method + " " + try.Target})
	}
	return writeTable(to, rows...)
}
