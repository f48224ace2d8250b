package module

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-e2b/gateway/auth"
)

// tokensCommand is the command "tokens".
var tokensCommand = caddycmd.Command{
	Name:  "tokens",
	Usage: "check|key",
	Short: "Says what a sandbox's token is good for, and makes token keys",
	Long: `Looks at access tokens and traffic tokens of sandboxes with the token keys of a
config, and makes new token keys. Tokens are read from standard input, because the
arguments of a program are seen by every user of the machine.`,
	CobraFunc: func(cmd *cobra.Command) {
		key := &cobra.Command{Use: "key", Short: "Makes token keys"}
		key.AddCommand(tokensKeyNew())
		cmd.AddCommand(tokensCheck(), key)
	},
}

func tokensCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [--sandbox <id>] [--subject <name>] [--config <file>] [--adapter <name>] [--json] < <file>",
		Short: "Says what the token on standard input is good for",
		Long: `Says what kind of token is on standard input, and which of the config's token keys
it was made with. With --sandbox it is held against that sandbox, and with
--subject against its owner, too. Nobody is asked, so the sandbox may be gone.

The exit code is 0 when the token is good, as far as was asked for, 1 when it is
void, and 2 when the config cannot say.`,
		Args: noArguments,
		RunE: caddycmd.WrapCommandFuncForCobra(checkToken),
	}
	cmd.Flags().String("sandbox", "", "the id of the sandbox that it is to open")
	cmd.Flags().String("subject", "", "whose sandbox it is")
	configFlags(cmd)
	jsonFlag(cmd)
	return cmd
}

func tokensKeyNew() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new [--id <name>] [--json]",
		Short: "Makes a token key",
		Long: `Makes the secret of a token key. It goes to standard output, and the line of the
Caddyfile that reads it from a file to standard error:

	$ umask 077; e2b-gateway tokens key new --id 2027-01 > /etc/e2b-gateway/token-2027-01

Every gateway needs the same. To change keys, add the new one behind the old on
every gateway, then put it first, and take the old one away when the sandboxes from
before have ended.`,
		Args: noArguments,
		RunE: caddycmd.WrapCommandFuncForCobra(makeTokenKey),
	}
	cmd.Flags().String("id", "", "the name of the key, which is part of every token (default: the year and the month)")
	jsonFlag(cmd)
	return cmd
}

// tokenVerdict is what is known of a token.
type tokenVerdict struct {
	// Verdict is "good" or "void".
	Verdict string `json:"verdict"`
	// Why it is void.
	Why string `json:"why,omitempty"`
	// Kind is "access" or "traffic".
	Kind string `json:"kind,omitempty"`
	// Key is the id of the key it was made with. Newest says that new tokens are made
	// with it, too.
	Key    string `json:"key,omitempty"`
	Newest bool   `json:"makes_new_tokens"`
	// SandboxID and Subject are what it was held against, "" for nothing.
	SandboxID string `json:"sandbox_id,omitempty"`
	Subject   string `json:"subject,omitempty"`
}

var errVoidToken = errors.New("the token opens nothing")

func checkToken(flags caddycmd.Flags) (int, error) {
	if flags.String("config") == "-" {
		return cannotSay, errors.New("standard input is for the token; give the config as a file")
	}
	if flags.String("subject") != "" && flags.String("sandbox") == "" {
		return cannotSay, errors.New("--subject needs --sandbox: a token is for one sandbox")
	}
	config, err := loadConfig(flags)
	if err != nil {
		return cannotSay, err
	}
	keys, err := tokenKeysIn(config)
	if err != nil {
		return cannotSay, err
	}
	token, err := readKey(os.Stdin)
	if err != nil {
		return cannotSay, err
	}
	v, err := judge(token, keys, flags.String("sandbox"), flags.String("subject"))
	if err != nil {
		return cannotSay, err
	}
	if err := write(flags, v, v.print); err != nil {
		return cannotSay, err
	}
	return said(v.Verdict == "good", errVoidToken)
}

// tokenKeysIn are the token keys of a config. Of its secrets only these are read.
func tokenKeysIn(config []byte) (keys []auth.TokenKey, _ error) {
	c, err := appIn(config)
	if err != nil {
		return nil, err
	}
	switch {
	case c == nil || c.Tokens == nil:
		return nil, errors.New("the config has no app e2b with tokens")
	case c.Tokens.Passthrough:
		return nil, errors.New("tokens passthrough: a sandbox's token is the API key of its owner, see keys check")
	}
	if err := newExpansion().tokens(c.Tokens); err != nil {
		return nil, err
	}
	for _, k := range c.Tokens.Keys {
		if k != nil { // NewTokens says so when there is none left
			keys = append(keys, auth.TokenKey{ID: k.ID, Secret: []byte(k.Secret)})
		}
	}
	return keys, nil
}

// judge holds a token against keys, and against a sandbox and its owner unless they
// are "".
func judge(token string, keys []auth.TokenKey, sandbox, subject string) (v *tokenVerdict, _ error) {
	tokens, err := auth.NewTokens(keys)
	if err != nil {
		return nil, err
	}
	v = &tokenVerdict{Verdict: "void", SandboxID: sandbox, Subject: subject}
	kind, id, ok := auth.TokenParts(token)
	switch {
	case strings.HasPrefix(token, auth.KeyPrefix) && !ok:
		v.Why = "it is an API key, see keys check"
		return v, nil
	case !ok:
		v.Why = "it is no token of this gateway's"
		return v, nil
	}
	v.Kind, v.Key, v.Newest = map[auth.Kind]string{auth.AccessToken: "access", auth.TrafficToken: "traffic"}[kind], id, id == keys[0].ID
	known := false
	for _, k := range keys {
		known = known || k.ID == id
	}
	if !known {
		v.Why = "the config has no token key of that name"
		return v, nil
	}
	if sandbox != "" {
		claim, good := tokens.Check(kind, token, sandbox)
		switch {
		case !good:
			v.Why = "it is another sandbox's, or was made with another secret of that name"
			return v, nil
		case subject != "" && !claim.By(subject):
			v.Why = "it was made for another owner of that sandbox"
			return v, nil
		}
	}
	v.Verdict = "good"
	return v, nil
}

func (v *tokenVerdict) print(to io.Writer) error {
	var b strings.Builder
	b.WriteString(v.Verdict)
	if v.Why != "" {
		b.WriteString(": " + v.Why)
	}
	b.WriteByte('\n')
	if v.Kind != "" {
		opens := map[string]string{"access": "commands and files (X-Access-Token)", "traffic": "the other ports (e2b-traffic-access-token)"}[v.Kind]
		fmt.Fprintf(&b, "kind:    %s token, for %s\nkey:     %s", v.Kind, opens, v.Key)
		if v.Newest {
			b.WriteString(", with which new tokens are made")
		}
		b.WriteByte('\n')
	}
	if v.SandboxID != "" {
		fmt.Fprintf(&b, "sandbox: %s\n", shown(v.SandboxID))
	} else if v.Verdict == "good" {
		b.WriteString("sandbox: not looked at, name one with --sandbox\n")
	}
	_, err := io.WriteString(to, b.String())
	return err
}

func makeTokenKey(flags caddycmd.Flags) (int, error) {
	id := flags.String("id")
	if id == "" {
		id = time.Now().UTC().Format("2006-01")
	}
	if !auth.ValidTokenKeyID(id) {
		return 1, errors.New("id: the name of a key is 1 to 32 of a-z 0-9 . -")
	}
	random := make([]byte, auth.MinTokenSecret)
	_, _ = rand.Read(random) // never fails
	secret := base64.StdEncoding.EncodeToString(random)
	line := fmt.Sprintf("key %s {file./etc/e2b-gateway/token-%s}", id, id)
	if flags.Bool("json") {
		return 0, writeJSON(os.Stdout, struct {
			ID     string `json:"id"`
			Secret string `json:"secret"`
			Line   string `json:"caddyfile"`
		}{id, secret, line})
	}
	if _, err := fmt.Println(secret); err != nil {
		return 1, err
	}
	_, err := fmt.Fprintln(os.Stderr, line)
	return 0, err
}
