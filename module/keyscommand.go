package module

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-e2b/gateway/auth"
)

// keysCommand is the command "keys".
var keysCommand = caddycmd.Command{
	Name:  "keys",
	Usage: "new|hash|check",
	Short: "Makes API keys and looks them up",
	Long: `Makes API keys for the e2b app and looks them up.

Stores hold the SHA-256 of keys and never keys. A key is shown once, when it is
made. The commands that take a key read it from standard input, because the
arguments of a program are seen by every user of the machine and are kept in the
history of the shell:

	$ e2b-gateway keys hash < key.txt`,
	CobraFunc: func(cmd *cobra.Command) {
		cmd.AddCommand(keysNew(), keysHash(), keysCheck())
	},
}

func keysNew() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new --subject <name> [--scopes control,data,admin] [--expires <time>] [--json]",
		Short: "Makes a key",
		Long: `Makes an API key. The key goes to standard output, and its record, as the file of
"keys file" has it, to standard error. With --json both go to standard output.

--expires is a time in RFC 3339, or from now on: 12h, 90d.`,
		Args: noArguments,
		RunE: caddycmd.WrapCommandFuncForCobra(makeKey),
	}
	cmd.Flags().String("subject", "", "whose key it is; keys of one subject see the same sandboxes")
	cmd.Flags().String("scopes", "", "what the key may do, with commas between (default control,data)")
	cmd.Flags().String("expires", "", "when the key becomes void (default never)")
	jsonFlag(cmd)
	return cmd
}

func keysHash() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hash [--json] < <file>",
		Short: "Prints the digest of the key on standard input",
		Args:  noArguments,
		RunE:  caddycmd.WrapCommandFuncForCobra(hashKey),
	}
	jsonFlag(cmd)
	return cmd
}

func keysCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [--config <file>] [--adapter <name>] [--json] < <file>",
		Short: "Says what the configured store knows of the key on standard input",
		Long: `Asks the store of API keys in the config for the key on standard input. The exit
code is 0 when it opens something, 1 when it does not, and 2 when the store cannot
say. Nothing is started, and of the secrets in the config only those of the store
are read.`,
		Args: noArguments,
		RunE: caddycmd.WrapCommandFuncForCobra(checkKey),
	}
	configFlags(cmd)
	jsonFlag(cmd)
	return cmd
}

// noArguments refuses what may be a key without repeating it.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return errors.New("there are no arguments here. A key belongs on standard input: " +
			"arguments are seen by every user of the machine and are kept in the history of the shell")
	}
	return nil
}

func makeKey(flags caddycmd.Flags) (int, error) {
	key := auth.NewKey()
	record := auth.Record{Digest: auth.DigestOf(key).String(), Subject: flags.String("subject")}
	if scopes := flags.String("scopes"); scopes != "" {
		record.Scopes = strings.Split(scopes, ",")
	}
	if expires := flags.String("expires"); expires != "" {
		var err error
		if record.Expires, err = expiry(expires, time.Now()); err != nil {
			return 1, err
		}
	}
	if _, err := record.Key(); err != nil {
		return 1, err
	}
	if flags.Bool("json") {
		return 0, writeJSON(os.Stdout, struct {
			Key    string      `json:"key"`
			Record auth.Record `json:"record"`
		}{key, record})
	}
	if _, err := fmt.Println(key); err != nil {
		return 1, err
	}
	return 0, writeJSON(os.Stderr, record)
}

// expiry reads a time, or a duration from now on.
func expiry(s string, now time.Time) (time.Time, error) {
	if d, err := caddy.ParseDuration(s); err == nil && d > 0 {
		return now.Add(d).UTC().Truncate(time.Second), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("expires: %q is neither a time in RFC 3339 such as 2027-01-31T00:00:00Z nor a duration such as 90d", s)
	case !t.After(now):
		return time.Time{}, fmt.Errorf("expires: %s is over", s)
	}
	return t, nil
}

func hashKey(flags caddycmd.Flags) (int, error) {
	key, err := readKey(os.Stdin)
	if err != nil {
		return 1, err
	}
	if hex := strings.TrimPrefix(key, auth.KeyPrefix); hex == key || strings.Trim(hex, "0123456789abcdef") != "" {
		fmt.Fprintln(os.Stderr, "note: E2B's SDKs want a key to be e2b_ and hexadecimal digits, unless validate_api_key=False")
	}
	digest := auth.DigestOf(key).String()
	return 0, write(flags, map[string]string{"digest": digest}, func(to io.Writer) error {
		_, err := fmt.Fprintln(to, digest)
		return err
	})
}

func checkKey(flags caddycmd.Flags) (int, error) {
	if flags.String("config") == "-" {
		return cannotSay, errors.New("standard input is for the key; give the config as a file")
	}
	config, err := loadConfig(flags)
	if err != nil {
		return cannotSay, err
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	var uses leases
	defer uses.release()
	store, err := storeIn(ctx, config, &uses)
	if err != nil {
		return cannotSay, err
	}
	key, err := readKey(os.Stdin)
	if err != nil {
		return cannotSay, err
	}
	v, err := verdictOn(store.Lookup(ctx, auth.DigestOf(key)))
	if err != nil {
		return cannotSay, err
	}
	if err := write(flags, v, v.print); err != nil {
		return cannotSay, err
	}
	return said(v.Verdict == "valid", errVoid)
}

// keyVerdict is what a store knows of a key.
type keyVerdict struct {
	// Verdict is "valid" or "void".
	Verdict string `json:"verdict"`
	// Why it is void.
	Why string `json:"why,omitempty"`
	// Record is what the store has of it, nil for nothing.
	Record *auth.Record `json:"record,omitempty"`
}

// verdictOn is the meaning of a store's answer. The error says that it has none.
func verdictOn(k *auth.Key, err error) (*keyVerdict, error) {
	switch {
	case errors.Is(err, auth.ErrUnknownKey):
		return &keyVerdict{Verdict: "void", Why: "there is no such key"}, nil
	case err != nil:
		return nil, err
	}
	record := k.Record()
	v := &keyVerdict{Verdict: "valid", Record: &record}
	switch {
	case k.Disabled:
		v.Verdict, v.Why = "void", "it is disabled"
	case k.Valid(time.Now()) != nil:
		v.Verdict, v.Why = "void", "it has expired"
	}
	return v, nil
}

func (v *keyVerdict) print(to io.Writer) error {
	line := v.Verdict
	if v.Why != "" {
		line += ": " + v.Why
	}
	if _, err := fmt.Fprintln(to, line); err != nil || v.Record == nil {
		return err
	}
	return writeJSON(to, v.Record)
}

var errVoid = errors.New("the key opens nothing")

// storeIn makes the store of API keys that is in a config.
func storeIn(ctx caddy.Context, config []byte, uses *leases) (auth.Store, error) {
	c, err := appIn(config)
	if err != nil {
		return nil, err
	}
	if c == nil || c.KeysRaw == nil {
		return nil, errors.New("the config has no app e2b with keys")
	}
	app := App{Config: *c}
	if err := app.loadKeys(ctx); err != nil {
		return nil, err
	}
	if app.keys == nil {
		return nil, errors.New("keys off: there is no store, everybody gets in")
	}
	return leaseKeys(uses, app.keys)
}

// maxKey is the longest key that is read, in bytes.
const maxKey = 4096

func readKey(from io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(from, maxKey+1))
	if err != nil {
		return "", fmt.Errorf("reading the key from standard input: %w", err)
	}
	key := strings.TrimSpace(string(b))
	switch {
	case key == "":
		return "", errors.New("there is no key on standard input")
	case len(b) > maxKey || strings.ContainsAny(key, " \t\r\n"):
		return "", errors.New("what is on standard input is more than one key")
	}
	return key, nil
}

func writeJSON(to io.Writer, value any) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
