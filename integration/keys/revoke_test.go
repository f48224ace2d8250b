package keys

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/redistest"
)

// store is a place that a running gateway reads keys from.
type store struct {
	option  string // what follows keys in the Caddyfile
	restore func() // makes the key valid
	revoke  func() // takes it back
	// within is how long a change may take to count. The file is read by a
	// goroutine that a busy machine lets wait, so that its second is held to in
	// the package's own tests, in synctest's time.
	within time.Duration
}

func stores(t *testing.T, key string) map[string]store {
	digest := auth.DigestOf(key).String()
	file := filepath.Join(t.TempDir(), "keys.json")
	write := func(records string) {
		// As a careful operator does it.
		if err := os.WriteFile(file+".new", []byte(`{"keys": [`+records+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	redis := redistest.Start(t, redistest.Options{})
	hash := "e2b-gateway:key:" + digest
	return map[string]store{
		"file": {
			"file " + file,
			func() { write(fmt.Sprintf(`{"digest": %q, "subject": "alice"}`, digest)) },
			func() { write("") },
			30 * time.Second,
		},
		"redis": {
			"redis {\naddress " + redis.Addr + "\n}",
			func() { redis.Do("HSET", hash, "subject", "alice") },
			func() { redis.Do("DEL", hash) },
			time.Second,
		},
	}
}

func TestAKeyIsTakenBackInARunningGatewayAlsoAfterAReload(t *testing.T) {
	const key = "e2b_0a0b0c"
	rock := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("[]"))
	}))
	t.Cleanup(rock.Close)
	for name, s := range stores(t, key) {
		t.Run(name, func(t *testing.T) {
			config := func(more string) string {
				return fmt.Sprintf("{\ne2b {\n%s\ncluster a {\nadmin %s\nproxy %s\n}\nkeys %s\ntokens passthrough\n}\n}\n:8080 {\ne2b\n}\n",
					more, rock.URL, rock.URL, s.option)
			}
			g := inprocess.Start(t, config(""))
			status := func() int {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+"/v2/sandboxes?metadata=a%3Db", nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-API-Key", key)
				resp, err := g.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				return resp.StatusCode
			}
			// turns waits until the status is want and fails when it is not in time.
			turns := func(change func(), want int) {
				t.Helper()
				change()
				for since := time.Now(); ; {
					age := time.Since(since) // before it is asked: the machine may be busy with other things
					got := status()
					if got == want {
						return
					}
					if got == http.StatusServiceUnavailable {
						since = time.Now() // the machine is too busy even for a question
					} else if age >= s.within {
						t.Fatalf("status %d after %v, want %d", got, age, want)
					}
				}
			}
			if got := status(); got != http.StatusUnauthorized {
				t.Fatalf("an unknown key: status %d", got)
			}
			turns(s.restore, http.StatusOK)
			turns(s.revoke, http.StatusUnauthorized)
			g.Reload(config("dial_timeout 2s"))
			turns(s.restore, http.StatusOK)
			turns(s.revoke, http.StatusUnauthorized)
			if strings.Contains(g.Logs(), key) {
				t.Error("the log holds the key")
			}
		})
	}
}
