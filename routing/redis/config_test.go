package redis

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConfigDefaults(t *testing.T) {
	c := Config{}.withDefaults()
	if c.Protocol != 2 || c.PoolSize != 64 || c.Timeout != time.Second || c.KeyPrefix != "alive:" || c.Watch != WatchTracking ||
		c.Logger == nil || c.Fields.State != "state" || c.Fields.StartTime != "start_time" {
		t.Fatalf("got %s %+v", c, c.Fields)
	}
}

func TestConfigFromJSON(t *testing.T) {
	var c Config
	err := json.Unmarshal([]byte(`{"addresses":["a:1","b:2"],"username":"u","password":"p","sentinel":{"master":"m","password":"s"},
		"tls":{"ca_file":"ca.pem"},"protocol":3,"pool_size":5,"timeout":2000000000,"key_prefix":"x:","watch":"keyspace"}`), &c)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if c.Sentinel.Master != "m" || c.TLS.CAFile != "ca.pem" || c.Timeout != 2*time.Second || c.KeyPrefix != "x:" {
		t.Fatalf("got %+v", c)
	}
	out, err := json.Marshal(Config{Addresses: []string{"a:1"}})
	if err != nil || string(out) != `{"addresses":["a:1"]}` {
		t.Fatalf("the zero value is written as %s, %v", out, err)
	}
}

func TestConfigRefusesContradictions(t *testing.T) {
	ok := func() Config { return Config{Addresses: []string{"127.0.0.1:6379"}} }
	for want, change := range map[string]func(*Config){
		"no address":                      func(c *Config) { c.Addresses = nil },
		"not host:port":                   func(c *Config) { c.Addresses = []string{"localhost"} },
		"exclude each other":              func(c *Config) { c.Cluster, c.Sentinel = true, &Sentinel{Master: "m"} },
		"name of a master":                func(c *Config) { c.Sentinel = &Sentinel{} },
		"no database but 0":               func(c *Config) { c.Cluster, c.DB = true, 1 },
		"several addresses":               func(c *Config) { c.Addresses = []string{"a:1", "b:2"} },
		"db -1":                           func(c *Config) { c.DB = -1 },
		"neither 2 nor 3":                 func(c *Config) { c.Protocol = 4 },
		"pool_size":                       func(c *Config) { c.PoolSize = -1 },
		"timeout":                         func(c *Config) { c.Timeout = -1 },
		"username needs a password":       func(c *Config) { c.Username = "u" },
		"key_file need each other":        func(c *Config) { c.TLS = &TLS{CertFile: "x"} },
		"none of tracking, keyspace, off": func(c *Config) { c.Watch = "poll" },
	} {
		c := ok()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
		if _, err := New(c); err == nil {
			t.Errorf("New accepts it: %s", want)
		}
	}
	if err := ok().Validate(); err != nil {
		t.Error(err)
	}
}

func TestNewNamesTheFileThatCannotBeRead(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tls := range []TLS{{CAFile: "missing.pem"}, {CAFile: empty}, {CertFile: "missing.pem", KeyFile: "missing.pem"}} {
		_, err := New(Config{Addresses: []string{"127.0.0.1:1"}, TLS: &tls})
		if err == nil || !strings.Contains(err.Error(), ".pem") {
			t.Errorf("%+v: %v", tls, err)
		}
	}
}

func TestConfigPrintsNoPassword(t *testing.T) {
	c := Config{Addresses: []string{"h:1"}, Username: "u", Password: "s3cret", Sentinel: &Sentinel{Master: "m", Password: "s3cret"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(format, c); strings.Contains(s, "s3cret") || !strings.Contains(s, "h:1") {
			t.Errorf("%s: %s", format, s)
		}
	}
}
