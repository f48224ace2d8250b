package rock

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// history is a Records that remembers every write.
type history struct {
	*MemoryRecords
	writes []string
}

func (h *history) Set(ctx context.Context, key string, doc any) error {
	b, _ := json.Marshal(doc)
	h.writes = append(h.writes, key+" "+string(b))
	return h.MemoryRecords.Set(ctx, key, doc)
}

func TestRecordsGoFromPendingWithoutAddressToRunningWithPorts(t *testing.T) {
	h := &history{MemoryRecords: NewMemoryRecords()}
	clk := newClock(time.Date(2026, 8, 21, 6, 12, 44, 0, time.UTC))
	g := newRig(t, Options{Records: h, Now: clk.now, HostIP: "10.20.30.41"})
	r := g.do("POST", g.admin.URL()+"/sandboxes", `{"templateID":"python:3.11","timeout":90,"metadata":{"ap-sandbox-id":"r","job":"17"},"envVars":{"LANG":"C"}}`,
		"X-API-Key", "key-1", "X-User-Id", "u-1", "X-Namespace", "ns", "X-Cluster", "vpc-a", "X-Experiment-Id", "exp-9")
	if r.status != 201 || len(h.writes) != 4 {
		t.Fatalf("got %d and %d writes", r.status, len(h.writes))
	}
	var alive [3]map[string]any
	for i, at := range []int{0, 2, 3} {
		if err := json.Unmarshal([]byte(h.writes[at][len("alive:r "):]), &alive[i]); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.writes[1]; got != `timeout:r {"auto_clear_time":"2","expire_time":"1787292884"}` {
		t.Errorf("got %s", got)
	}
	common := map[string]any{"sandbox_id": "r", "image": "python:3.11", "metadata": map[string]any{"ap-sandbox-id": "r", "job": "17"}, "env": map[string]any{"LANG": "C"},
		"cpus": 2.0, "memory": "8.00g", "disk": "50G", "num_gpus": nil, "accelerator_type": nil, "user_id": "u-1", "experiment_id": "exp-9", "namespace": "ns",
		"cluster_name": "vpc-a", "create_time": "2026-08-21T14:12:44+08:00"}
	for i, rec := range alive {
		for k, want := range common {
			if got, ok := rec[k]; !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("record %d, %s: got %v, want %v", i, k, got, want)
			}
		}
	}
	_, early := alive[0]["host_ip"]
	_, ports := alive[1]["port_mapping"]
	if early || ports || alive[0]["state"] != "pending" || alive[1]["state"] != "pending" || alive[1]["host_ip"] != "10.20.30.41" {
		t.Errorf("got %v\n%v", alive[0], alive[1])
	}
	last := alive[2]
	mapping, _ := last["port_mapping"].(map[string]any)
	if last["state"] != "running" || len(mapping) != 3 || mapping["22555"] == nil || mapping["22"] == nil || mapping["8080"] == nil || last["start_time"] != "2026-08-21T14:12:44+08:00" {
		t.Errorf("got %v", last)
	}
	if got := fmt.Sprint(last["state_history"]); got != "[map[event:alive from_state:pending timestamp:2026-08-21T14:12:44+08:00 to_state:running]]" {
		t.Errorf("got %s", got)
	}
	if got := unseal(t, [32]byte{}, last["rock_authorization_encrypted"].(string)); got != "Bearer key-1" {
		t.Errorf("got %q", got)
	}
}

func unseal(t *testing.T, key [32]byte, sealed string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gcm.Open(nil, b[:12], b[12:], nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

func TestAuthorizationDefaultsToTheXKeyHeaderThenToDefault(t *testing.T) {
	key := [32]byte{1}
	g := newRig(t, Options{EncryptKey: key})
	for id, c := range map[string]struct{ headers, want string }{"x": {"X-Key", "k-1"}, "none": {"X-Other", "default"}} {
		g.do("POST", g.admin.URL()+"/sandboxes", `{"templateID":"t","timeout":60,"metadata":{"ap-sandbox-id":"`+id+`"}}`, c.headers, "k-1")
		if got := unseal(t, key, g.record("alive:" + id)["rock_authorization_encrypted"].(string)); got != c.want {
			t.Errorf("%s: got %q", id, got)
		}
	}
}

func TestKubernetesAndOpenSandboxRecordsHaveTheirOwnShape(t *testing.T) {
	k8s := newRig(t, Options{Backend: Kubernetes, HostIP: "172.16.4.9"})
	k8s.create("k")
	rec := k8s.record("alive:k")
	if fmt.Sprint(rec["port_mapping"]) != "map[22:22 22555:8000 8080:8080]" || rec["host_ip"] != "172.16.4.9" || rec["host_name"] != "k" ||
		rec["extended_params"].(map[string]any)["k8s_resource_version"] == nil {
		t.Errorf("got %v", rec)
	}
	osb := newRig(t, Options{Backend: OpenSandbox})
	osb.do("POST", osb.admin.URL()+"/sandboxes", `{"templateID":"t","timeout":60,"metadata":{"ap-sandbox-id":"o"}}`)
	rec = osb.record("alive:o")
	_, ip := rec["host_ip"]
	_, ports := rec["port_mapping"]
	if ip || ports || rec["state"] != "running" || rec["extended_params"].(map[string]any)["backend"] != "opensandbox" {
		t.Errorf("got %v", rec)
	}
}

// spy answers every Redis command in this process and remembers it.
type spy struct {
	sent []string
	err  error
}

func (s *spy) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network") }
}

func (s *spy) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		var words []string
		for _, a := range cmd.Args() {
			if b, ok := a.([]byte); ok {
				a = string(b)
			}
			words = append(words, fmt.Sprint(a))
		}
		s.sent = append(s.sent, strings.Join(words, " "))
		cmd.SetErr(s.err)
		return s.err
	}
}

func (s *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestRedisRecordsSendTheCommandsOfROCK(t *testing.T) {
	for name, c := range map[string]struct {
		records func(redis.UniversalClient) Records
		want    []string
	}{
		"strings": {func(c redis.UniversalClient) Records { return RedisStrings{c} },
			[]string{`set alive:1 {"a":1}`, `del alive:1`, `del timeout:1`}},
		"json": {func(c redis.UniversalClient) Records { return RedisJSON{c} },
			[]string{`JSON.SET alive:1 $ {"a":1}`, `JSON.DEL alive:1 $`, `JSON.DEL timeout:1 $`}},
	} {
		t.Run(name, func(t *testing.T) {
			hook := &spy{}
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
			defer func() { _ = client.Close() }()
			client.AddHook(hook)
			rec := c.records(client)
			if err := rec.Set(t.Context(), "alive:1", map[string]int{"a": 1}); err != nil {
				t.Fatal(err)
			}
			if err := rec.Del(t.Context(), "alive:1", "timeout:1"); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(hook.sent, c.want) {
				t.Fatalf("got %q, want %q", hook.sent, c.want)
			}
			hook.err = errors.New("LOADING")
			if rec.Set(t.Context(), "k", 1) == nil || rec.Del(t.Context(), "k", "l") == nil {
				t.Fatal("errors are lost")
			}
			if n := len(hook.sent) - len(c.want); n != 3 {
				t.Fatalf("a failed delete must not spare the other key: %d commands", n)
			}
		})
	}
}

type brokenRecords struct{}

func (brokenRecords) Set(context.Context, string, any) error { return errors.New("redis is down") }
func (brokenRecords) Load(context.Context, string) (json.RawMessage, error) {
	return nil, errors.New("redis is down")
}
func (brokenRecords) Del(context.Context, ...string) error { return errors.New("redis is down") }

func TestRecordErrorsAreSilentAsInROCK(t *testing.T) {
	g := newRig(t, Options{Records: brokenRecords{}})
	g.create("x")
	if err := g.c.RecordError(); err == nil || err.Error() != "redis is down" {
		t.Fatalf("got %v", err)
	}
	g.do("DELETE", g.admin.URL()+"/sandboxes/x", "").want(t, 204, "")
}

// The gateway pushes the end of a sandbox back in Redis, where ROCK reads it.
func TestTheEndOfASandboxIsWhatItsRecordSays(t *testing.T) {
	now := time.Now()
	g := newRig(t, Options{ScanInterval: -1, Now: func() time.Time { return now }})
	write := func(doc map[string]string) {
		if err := g.c.Records().Set(t.Context(), "timeout:a", doc); err != nil {
			t.Fatal(err)
		}
	}
	s := g.create("a")
	later := now.Add(time.Hour)
	write(map[string]string{"auto_clear_time": "5", "expire_time": strconv.FormatInt(later.Unix(), 10)})
	now = now.Add(30 * time.Minute)
	g.c.Scan()
	if s.State() != Running || s.Expires().Unix() != later.Unix() {
		t.Errorf("%s, ends %v", s.State(), s.Expires())
	}
	if r := g.do("GET", g.admin.URL()+"/sandboxes/a", ""); !strings.Contains(r.body, `"endAt":"`+stamp(later)+`"`) {
		t.Errorf("%s", r.body)
	}
	// Without a record there is no end.
	_ = g.c.Records().Del(t.Context(), "timeout:a")
	now = now.Add(24 * time.Hour)
	g.c.Scan()
	if s.State() != Running {
		t.Errorf("%s without a record", s.State())
	}
	write(map[string]string{"auto_clear_time": "5", "expire_time": strconv.FormatInt(now.Unix()-1, 10)})
	g.c.Scan()
	if s.State() != Stopped {
		t.Errorf("%s after its end", s.State())
	}
}
