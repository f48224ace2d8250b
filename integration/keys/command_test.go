package keys

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness"
	"github.com/caddy-e2b/gateway/integration/redistest"
)

// result is what a run of the command came to.
type result struct {
	out, err string
	code     int
}

// run runs "keys" with a key, or something else, on standard input.
func run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.Build(t), append([]string{"keys"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+cmd.Dir, "XDG_CONFIG_HOME="+cmd.Dir, "HOME="+cmd.Dir)
	cmd.Stdin = strings.NewReader(stdin)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func TestANewKeyIsPrintedOnceBesideItsRecord(t *testing.T) {
	r := run(t, "", "new", "--subject", "alice", "--scopes", "data,admin", "--expires", "90d")
	key := strings.TrimSpace(r.out)
	if r.code != 0 || !regexp.MustCompile(`^e2b_[0-9a-f]{40}$`).MatchString(key) {
		t.Fatalf("%+v", r)
	}
	var record auth.Record
	if err := auth.UnmarshalStrict([]byte(r.err), &record); err != nil {
		t.Fatalf("%s: %v", r.err, err)
	}
	k, err := record.Key()
	if err != nil || k.Digest != auth.DigestOf(key) || k.Subject != "alice" || k.Scopes != auth.ScopeData|auth.ScopeAdmin {
		t.Errorf("%+v, %v", k, err)
	}
	if days := time.Until(k.Expires).Hours() / 24; days < 89 || days > 90 {
		t.Errorf("it expires in %v days", days)
	}
	if strings.Contains(r.err, key) {
		t.Error("the key is beside its record")
	}
}

func TestANewKeyAndItsRecordCanBeHadAsJSON(t *testing.T) {
	r := run(t, "", "new", "--subject", "alice", "--json")
	var made struct {
		Key    string
		Record auth.Record
	}
	if err := json.Unmarshal([]byte(r.out), &made); err != nil || r.err != "" {
		t.Fatalf("%+v: %v", r, err)
	}
	if k, err := made.Record.Key(); err != nil || k.Digest != auth.DigestOf(made.Key) || k.Scopes != auth.DefaultScopes {
		t.Errorf("%+v, %v", k, err)
	}
}

func TestAKeyThatCannotBeIsNotMade(t *testing.T) {
	for _, args := range [][]string{
		{"new"},
		{"new", "--subject", "alice smith"},
		{"new", "--subject", "alice", "--scopes", "root"},
		{"new", "--subject", "alice", "--expires", "2001-01-01T00:00:00Z"},
		{"new", "--subject", "alice", "--expires", "soon"},
	} {
		if r := run(t, "", args...); r.code != 1 || r.out != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestTheDigestOfAKeyIsThatOfItsText(t *testing.T) {
	const key = "e2b_0a0b"
	for _, stdin := range []string{key, key + "\n", key + "\r\n"} {
		if r := run(t, stdin, "hash"); r.code != 0 || r.out != auth.DigestOf(key).String()+"\n" || r.err != "" {
			t.Errorf("%q: %+v", stdin, r)
		}
	}
	if r := run(t, "my own", "hash"); r.code != 1 || r.out != "" {
		t.Errorf("two words: %+v", r)
	}
	if r := run(t, "", "hash"); r.code != 1 || r.out != "" {
		t.Errorf("nothing: %+v", r)
	}
	if r := run(t, "password", "hash"); r.code != 0 || !strings.Contains(r.err, "SDKs want") {
		t.Errorf("a key that SDKs refuse: %+v", r)
	}
}

func TestAKeyAsAnArgumentIsRefusedAndNotRepeated(t *testing.T) {
	const canary = "e2b_ca11a41e"
	for _, command := range []string{"hash", "check", "new"} {
		if r := run(t, "", command, canary); r.code != 1 || strings.Contains(r.out+r.err, canary) || !strings.Contains(r.err, "standard input") {
			t.Errorf("%s: %+v", command, r)
		}
	}
}

// config is a Caddyfile with this store of keys.
func config(t *testing.T, keys string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Caddyfile")
	text := `{
	e2b {
		cluster a {
			admin http://127.0.0.1:1
			proxy http://127.0.0.1:1
		}
		keys ` + keys + `
		tokens {
			key a {env.E2B_TEST_NOT_SET}
		}
	}
}
:8080 {
	e2b
}
`
	if strings.HasPrefix(keys, "off") {
		text = text[:strings.Index(text, "\t\ttokens")] + text[strings.Index(text, "\t}\n}\n:8080"):]
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEveryStoreSaysWhatItKnowsOfAKey(t *testing.T) {
	digest := func(name string) string { return auth.DigestOf(name).String() }
	redis := redistest.Start(t, redistest.Options{})
	redis.Do("HSET", "e2b-gateway:key:"+digest("good"), "subject", "alice", "scopes", "data")
	redis.Do("HSET", "e2b-gateway:key:"+digest("disabled"), "subject", "alice", "disabled", "true")
	redis.Do("HSET", "e2b-gateway:key:"+digest("expired"), "subject", "alice", "expires", "2001-01-01T00:00:00Z")
	records := fmt.Sprintf(`{"keys": [{"digest": %q, "subject": "alice", "scopes": ["data"]}, {"digest": %q, "subject": "alice", "disabled": true},
		{"digest": %q, "subject": "alice", "expires": "2001-01-01T00:00:00Z"}]}`, digest("good"), digest("disabled"), digest("expired"))
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, []byte(records), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/" + digest("good"):
			_, _ = w.Write([]byte(`{"subject":"alice","scopes":["data"]}`))
		case "/" + digest("disabled"):
			_, _ = w.Write([]byte(`{"subject":"alice","disabled":true}`))
		case "/" + digest("expired"):
			_, _ = w.Write([]byte(`{"subject":"alice","expires":"2001-01-01T00:00:00Z"}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for name, keys := range map[string]string{
		"static": fmt.Sprintf("static {\nkey %s alice {\nscopes data\n}\nkey %s alice {\ndisabled\n}\nkey %s alice {\nexpires 2001-01-01T00:00:00Z\n}\n}",
			digest("good"), digest("disabled"), digest("expired")),
		"file":  "file " + file,
		"redis": "redis {\naddress " + redis.Addr + "\n}",
		"http":  "http " + server.URL,
	} {
		t.Run(name, func(t *testing.T) {
			path := config(t, keys)
			for key, want := range map[string]struct {
				verdict string
				code    int
			}{
				"good": {"valid", 0}, "disabled": {"void: it is disabled", 1}, "expired": {"void: it has expired", 1}, "other": {"void: there is no such key", 1},
			} {
				r := run(t, key+"\n", "check", "--config", path)
				verdict, record, _ := strings.Cut(r.out, "\n")
				if r.code != want.code || verdict != want.verdict {
					t.Errorf("%s: %+v", key, r)
				}
				if key != "other" && (!strings.Contains(record, `"subject":"alice"`) || !strings.Contains(record, digest(key))) {
					t.Errorf("%s: the record is %s", key, record)
				}
			}
		})
	}
}

func TestAStoreThatCannotSayExitsWithTwo(t *testing.T) {
	for name, keys := range map[string]string{
		"no Redis": "redis {\naddress 127.0.0.1:1\n}",
		"no file":  "file /does/not/exist",
		"off":      "off",
	} {
		if r := run(t, "e2b_0a", "check", "--config", config(t, keys)); r.code != 2 || r.out != "" || strings.Contains(r.err, "e2b_0a") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
