package e2bcaddyfile

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func TestSizesAreNumbersOfBytesOrHaveAUnit(t *testing.T) {
	for in, want := range map[string]int64{
		"1": 1, "65536": 65536, "10B": 10, "64KiB": 64 << 10, "1MiB": 1 << 20, "2GiB": 2 << 30,
		"1kB": 1000, "1KB": 1000, "3MB": 3e6, "1GB": 1e9, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := parseSize(in); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "-1", "B", "MiB", "1.5MiB", "1 MiB", "1mib", "1K", "9223372036854775808", "9007199254740992KiB"} {
		if got, err := parseSize(in); err == nil {
			t.Errorf("%q: accepted as %d", in, got)
		}
	}
}

func parse(t testing.TB, text string) (*Config, error) {
	t.Helper()
	tokens, err := caddyfile.Tokenize([]byte(text), "Caddyfile")
	if err != nil {
		return nil, err
	}
	return ParseGlobal(caddyfile.NewDispenser(tokens))
}

func TestAJSONConfigIsHeldToTheRulesOfTheCaddyfile(t *testing.T) {
	for rule, config := range map[string]string{
		"at least one cluster":         `{}`,
		"a cluster is null":            `{"clusters": [null]}`,
		"is given twice":               `{"clusters": [{"name":"a","admin":["http://a"],"proxy":["http://a"]},{"name":"a","admin":["http://a"],"proxy":["http://a"]}]}`,
		"a name is":                    `{"clusters": [{"admin":["http://a"],"proxy":["http://a"]}]}`,
		"needs the address of its adm": `{"clusters": [{"name":"a","proxy":["http://a"]}]}`,
		"must start with http":         `{"clusters": [{"name":"a","admin":["ftp://a"],"proxy":["http://a"]}]}`,
		"mode is rock or direct":       `{"clusters": [{"name":"a","admin":["http://a"],"proxy":["http://a"],"mode":"tunnel"}]}`,
		"unmapped_ports is tunnel":     `{"clusters": [{"name":"a","admin":["http://a"],"proxy":["http://a"],"mode":"direct","allow":["10.0.0.0/8"],"unmapped_ports":"x"}]}`,
		"CIDR notation":                `{"clusters": [{"name":"a","admin":["http://a"],"proxy":["http://a"],"mode":"direct","allow":["rock"]}]}`,
		"cert and key belong together": `{"clusters": [{"name":"a","admin":["http://a"],"proxy":["http://a"],"tls":{"key":"k"}}]}`,
		"must not be negative":         `{"clusters": [{"name":"a","admin":["http://a"],"proxy":["http://a"]}],"dial_timeout":-1}`,
		"lean or standard":             `{"clusters": [{"name":"a","admin":["http://a"],"proxy":["http://a"]}],"upstream_client":"curl"}`,
		"buffer_body":                  `{"clusters": [{"name":"a","admin":["http://a"],"proxy":["http://a"]}],"buffer_body":-1}`,
	} {
		var c Config
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("want an error with %q, got %v", rule, err)
		}
	}
}

func TestAStaticTableInJSONIsHeldToTheRulesOfTheCaddyfile(t *testing.T) {
	for rule, config := range map[string]string{
		"invalid sandbox id": `{"sandboxes": {"../x": {}}}`,
		"is null":            `{"sandboxes": {"a": null}}`,
		"state is one of":    `{"sandboxes": {"a": {"state": "asleep"}}}`,
		"not an IP address":  `{"sandboxes": {"a": {"host": "db"}}}`,
		"port 0":             `{"sandboxes": {"a": {"ports": {"0": 1}}}}`,
	} {
		var c StaticConfig
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("want an error with %q, got %v", rule, err)
		}
	}
}

func TestAValueWithAPlaceholderIsCheckedOnceItIsExpanded(t *testing.T) {
	c, err := parse(t, "e2b {\n keys off\n cluster a {\n admin {env.ADMIN}\n proxy http://{env.PROXY}:80\n mode direct\n allow {env.NET}\n }\n}")
	if err != nil {
		t.Fatal(err)
	}
	c.Clusters[0].Admin[0] = "not a URL"
	if err := c.Check(); err == nil {
		t.Error("the expanded value was not checked")
	}
}

// FuzzParseGlobal: whatever an operator types, the parser ends, and what it
// accepts survives the way through JSON that every config takes.
func FuzzParseGlobal(f *testing.F) {
	f.Add("e2b {\n keys off\n cluster a {\n admin http://a\n proxy http://b\n }\n}")
	f.Add("e2b {\n keys off\n cluster a {\n admin http://a\n proxy http://b\n mode direct\n allow 10.0.0.0/8\n tls {\n ca x\n }\n }\n cache {\n stale off\n }\n}")
	f.Add("e2b {\n cache {\n stale\n }\n}")
	f.Add("e2b {\n registry redis {\n}\n}")
	f.Add("e2b x {")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(t, text)
		if err != nil {
			return
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var again Config
		if err := caddy.StrictUnmarshalJSON(b, &again); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(c, &again) {
			t.Errorf("%s became %+v", b, again)
		}
	})
}

// FuzzRegistries does the same for the registries' own blocks.
func FuzzRegistries(f *testing.F) {
	f.Add("redis {\n address a:1\n password {env.X}\n username y\n tls\n field state phase\n watch off\n}")
	f.Add("static {\n sandbox a {\n host 10.0.0.1\n port 1 2\n state paused\n }\n}")
	f.Add("control")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := caddyfile.Tokenize([]byte(text), "Caddyfile")
		if err != nil {
			return
		}
		redis, static, control := new(RedisConfig), new(StaticConfig), new(ControlConfig)
		if redis.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)) == nil && redis.Check() != nil {
			t.Errorf("%q is accepted but wrong: %v", text, redis.Check())
		}
		if static.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)) == nil && static.Check() != nil {
			t.Errorf("%q is accepted but wrong: %v", text, static.Check())
		}
		_ = control.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens))
	})
}

func TestAListenerInJSONIsHeldToTheRulesOfTheCaddyfile(t *testing.T) {
	for rule, config := range map[string]string{
		"max_concurrent_streams is from": `{"max_concurrent_streams": -1}`,
		"stream_window is from":          `{"stream_window": 4194304}`,
		"connection_window is from":      `{"connection_window": 1}`,
		"must not be larger":             `{"stream_window": 3200000}`,
		"must not be negative":           `{"ping_timeout": -1}`,
	} {
		var c ListenerConfig
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("want an error with %q, got %v", rule, err)
		}
	}
}

// FuzzListener does the same for the listener wrapper.
func FuzzListener(f *testing.F) {
	f.Add("e2b {\n max_concurrent_streams 5\n stream_window 1MiB\n ping_interval off\n write_timeout 1s\n}")
	f.Add("e2b")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := caddyfile.Tokenize([]byte(text), "Caddyfile")
		if err != nil {
			return
		}
		c := new(ListenerConfig)
		if c.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)) == nil && c.Check() != nil {
			t.Errorf("%q is accepted but wrong: %v", text, c.Check())
		}
	})
}
