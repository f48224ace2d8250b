package canary

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/auth"
)

// envBearer is what the gateway shows the server of keys.
const envBearer = "E2B_CANARY_BEARER"

// httpKeys are the options that ask a server for keys. It answers well, or as
// answer says: with the gateway's own secret in it.
func (s *scene) httpKeys(t *testing.T, answer func(w http.ResponseWriter, bearer string)) string {
	t.Helper()
	bearer := s.server.put("bearer of the key store")
	s.slots.add("bearer of the key store", bearer)
	t.Setenv(envBearer, bearer)
	subjects := map[string]string{auth.DigestOf(s.key).String(): "alice", auth.DigestOf(s.othersKey).String(): "bob"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if given != bearer {
			t.Errorf("the store was shown %q", given)
		}
		digest := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		switch subject := subjects[digest]; {
		case answer != nil:
			answer(w, given)
		case subject == "":
			w.WriteHeader(http.StatusNotFound)
		default:
			_ = json.NewEncoder(w).Encode(auth.Record{Subject: subject})
		}
	}))
	t.Cleanup(server.Close)
	return fmt.Sprintf(`keys http %s/keys {
			bearer {env.`+envBearer+`}
		}
		tokens {
			key k {env.`+envTokens+`}
		}`, server.URL)
}

// redisKeys are the options that look keys up in a Redis.
func (s *scene) redisKeys(address string) string {
	return fmt.Sprintf(`keys redis {
			address %s
			username gateway
			password {env.`+envRedis+`}
		}
		tokens {
			key k {env.`+envTokens+`}
		}`, address)
}

// badStores are the answers of a server of keys that give its secret away.
var badStores = map[string]func(w http.ResponseWriter, bearer string){
	"fails": func(w http.ResponseWriter, bearer string) {
		http.Error(w, "no access for "+bearer, http.StatusInternalServerError)
	},
	"refuses":     func(w http.ResponseWriter, bearer string) { http.Error(w, bearer, http.StatusUnauthorized) },
	"is confused": func(w http.ResponseWriter, bearer string) { fmt.Fprintf(w, `{"subject": %s`, bearer) },
	"has a field": func(w http.ResponseWriter, bearer string) { fmt.Fprintf(w, `{"subject":"a","%s":1}`, bearer) },
	"has a scope": func(w http.ResponseWriter, bearer string) { fmt.Fprintf(w, `{"subject":"a","scopes":["%s"]}`, bearer) },
	"has a name":  func(w http.ResponseWriter, bearer string) { fmt.Fprintf(w, `{"subject":"%s !"}`, bearer) },
	"has a date":  func(w http.ResponseWriter, bearer string) { fmt.Fprintf(w, `{"subject":"a","expires":"%s"}`, bearer) },
	"has a raw key": func(w http.ResponseWriter, bearer string) {
		fmt.Fprintf(w, `{"digest":"e2b_%s","subject":"a"}`, bearer)
	},
	"redirects": func(w http.ResponseWriter, bearer string) {
		w.Header().Set("Location", "http://"+bearer+".test/"+bearer)
		w.WriteHeader(http.StatusFound)
	},
}

// A store that cannot say, and says too much.
func TestNoSecretOfTheKeyStoreComesOut(t *testing.T) {
	for name, answer := range badStores {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.look(t, s.redis.Addr, s.httpKeys(t, answer))
		})
	}
}
