package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/redistest"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// everything a gateway does, and the rights that it takes, as the README has them.
var everything = redis.Needs{Records: true, Ends: true, Hashes: "e2b-gateway:key:", Channel: "e2b-gateway:limits:0:"}

const rights = "gateway on >secret resetchannels ~alive:* ~e2b-gateway:key:* &__redis__:invalidate &e2b-gateway:limits:* " +
	"-@all +get +hgetall +ping +subscribe +publish +client|id +client|tracking +multi +exec +unwatch (~timeout:* -@all +get +set +watch)"

func inspect(t *testing.T, cfg redis.Config, needs redis.Needs) *redis.Inspection {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	found, err := redis.Inspect(ctx, cfg, needs)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func commands(i *redis.Inspection) string {
	var names []string
	for _, r := range i.Refused {
		names = append(names, r.Command)
	}
	return strings.Join(names, " ")
}

func TestInspectionNamesEveryRightThatIsMissing(t *testing.T) {
	for _, c := range []struct{ without, refused string }{
		{"", ""},
		{"+get", "get"},
		{"~alive:*", "get"},
		{"+hgetall", "hgetall"},
		{"~e2b-gateway:key:*", "hgetall"},
		{"+client|id", "client|id"},
		{"+client|tracking", "client|tracking"},
		{"+subscribe", "subscribe subscribe"},
		{"&__redis__:invalidate", "subscribe"},
		{"&e2b-gateway:limits:*", "subscribe publish"},
		{"+publish", "publish"},
		{"+multi", "multi"},
		{"(~timeout:*", "watch"},
		{"+set", "set"},
	} {
		t.Run(c.without, func(t *testing.T) {
			t.Parallel()
			user := rights
			switch {
			case strings.HasPrefix(c.without, "("):
				user, _, _ = strings.Cut(rights, " (")
			case c.without != "":
				user = strings.Replace(rights, c.without+" ", "", 1)
			}
			server := redistest.Start(t, redistest.Options{Users: []string{user}})
			cfg := redis.Config{Addresses: []string{server.Addr}, Username: "gateway", Password: "secret"}
			found := inspect(t, cfg, everything)
			if got := commands(found); got != c.refused {
				t.Errorf("refused: %q, want %q (%v)", got, c.refused, found.Refused)
			}
			for _, r := range found.Refused {
				if !r.Forbidden() {
					t.Errorf("%v is told as a command that the server lacks", r)
				}
			}
			if found.Facts != (redis.Facts{}) || strings.Join(found.Untold, " ") != "INFO TIME" {
				t.Errorf("a user who may not ask is told %+v, and not %v", found.Facts, found.Untold)
			}
		})
	}
}

func TestInspectionReadsWhatTheServerTells(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Args: []string{
		"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--notify-keyspace-events", "Kg",
	}})
	found := inspect(t, redis.Config{Addresses: []string{server.Addr}, Watch: redis.WatchKeyspace}, everything)
	f := found.Facts
	if len(found.Refused)+len(found.Untold) != 0 || f.Version == "" || f.Replica || f.MemoryLimit != 100<<20 || f.Eviction != "allkeys-lru" {
		t.Errorf("%+v", found)
	}
	if !f.SkewTold || f.Skew.Abs() > time.Minute {
		t.Errorf("the clock of this machine is %v off from itself", f.Skew)
	}
	if !f.EventsTold || f.HearsOfRecords(false) || found.Documents {
		t.Errorf("%+v: SET is not in Kg", found)
	}
}

func TestTheEventsThatAWatchNeeds(t *testing.T) {
	for events, want := range map[string][2]bool{ // strings, documents
		"":     {false, false},
		"KEA":  {true, true},
		"KA":   {true, true},
		"EA":   {false, false},
		"Kg$":  {true, false},
		"Kgd":  {false, true},
		"Kg$d": {true, true},
		"K$":   {false, false},
	} {
		f := redis.Facts{Events: events}
		if got := [2]bool{f.HearsOfRecords(false), f.HearsOfRecords(true)}; got != want {
			t.Errorf("%q: %v, want %v", events, got, want)
		}
	}
}

func TestInspectionWritesNothing(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	inspect(t, redis.Config{Addresses: []string{server.Addr}}, everything)
	if keys := server.Do("DBSIZE"); keys != int64(0) {
		t.Errorf("%v keys", keys)
	}
}

func TestAJSONServerIsSeenToBeOne(t *testing.T) {
	server := redistest.StartJSON(t)
	found := inspect(t, redis.Config{Addresses: []string{server.Addr}, Watch: redis.WatchOff}, redis.Needs{Records: true, Ends: true})
	if !found.Documents || len(found.Refused) != 0 {
		t.Errorf("%+v", found)
	}
}

func TestAServerThatLetsNobodyInIsNotInspected(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Password: "right"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, password := range []string{"", "wrong"} {
		_, err := redis.Inspect(ctx, redis.Config{Addresses: []string{server.Addr}, Password: password}, everything)
		if err == nil {
			t.Errorf("with the password %q it was inspected", password)
		}
	}
	server.Stop()
	if _, err := redis.Inspect(ctx, redis.Config{Addresses: []string{server.Addr}}, everything); err == nil {
		t.Error("a server that is down was inspected")
	}
}

// A right that the masters lack is found wherever the client is sent.
func TestInspectionFollowsSentinelsAndClusters(t *testing.T) {
	const without = "gateway on >secret &* ~* +@all -client|tracking"
	pair := redistest.StartSentinel(t, redistest.Options{Users: []string{without}})
	cluster := redistest.StartCluster(t, redistest.Options{Users: []string{without}})
	for name, cfg := range map[string]redis.Config{
		"sentinel": {Addresses: []string{pair.Addr}, Sentinel: &redis.Sentinel{Master: pair.Master, Password: pair.Password}},
		"cluster":  {Addresses: []string{cluster.Nodes[0].Addr}, Cluster: true},
	} {
		if found := inspect(t, cfg, everything); len(found.Refused) != 0 || found.Facts.Version == "" || found.Facts.Replica {
			t.Errorf("%s: %+v", name, found)
		}
		cfg.Username, cfg.Password = "gateway", "secret"
		if got := commands(inspect(t, cfg, everything)); got != "client|tracking" {
			t.Errorf("%s: refused %q", name, got)
		}
	}
}
