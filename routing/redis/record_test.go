package redis

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/routing"
)

var rockFields = Fields{}.withDefaults()

const rayRecord = `{"sandbox_id":"sbx-1","host_ip":"10.20.30.41","host_name":"ray-worker-7","image":"python:3.11",
 "metadata":{"state":"deleted","host_ip":"9.9.9.9"},"env":{"LANG":"C.UTF-8"},"user_id":"u-1001","cpus":2,"memory":"8.00g","num_gpus":null,
 "state":"running","port_mapping":{"22555":31001,"22":31002,"8080":31003},
 "phases":{"docker_run":{"status":"success","message":"ok"}},
 "create_time":"2026-08-21T14:12:10+08:00","start_time":"2026-08-21T14:12:44+08:00"}`

func parse(t *testing.T, record string) (*routing.Route, error) {
	t.Helper()
	r, err := parseRecord("sbx-1", []byte(record), rockFields, nil)
	if (r == nil) == (err == nil) {
		t.Fatalf("route %+v and error %v", r, err)
	}
	return r, err
}

func TestRecordOfARunningSandbox(t *testing.T) {
	for name, record := range map[string]string{"object": rayRecord, "array of one": "[" + rayRecord + "]", "with space": " \n[" + rayRecord + "]\n"} {
		t.Run(name, func(t *testing.T) {
			r, err := parse(t, record)
			if err != nil {
				t.Fatal(err)
			}
			if r.SandboxID != "sbx-1" || r.State != routing.StateRunning || r.Host != netip.MustParseAddr("10.20.30.41") ||
				r.Ports.String() != "22:31002 8080:31003 22555:31001 " || r.Problem != "" || len(r.Lifecycle) != 16 {
				t.Fatalf("got %+v", r)
			}
		})
	}
}

// Field reports F09 and F10: what is gone and what is don't know.
func TestRecordGoneOrMalformed(t *testing.T) {
	for record, want := range map[string]error{
		`[]`:                           routing.ErrGone,
		`null`:                         routing.ErrGone,
		`[null]`:                       routing.ErrGone,
		`{}`:                           routing.ErrGone,
		`[{}]`:                         routing.ErrGone,
		`[[]]`:                         routing.ErrGone,
		`[[null]]`:                     routing.ErrMalformed,
		``:                             routing.ErrMalformed,
		`  `:                           routing.ErrMalformed,
		`running`:                      routing.ErrMalformed,
		`"running"`:                    routing.ErrMalformed,
		`["running"]`:                  routing.ErrMalformed,
		`7`:                            routing.ErrMalformed,
		`true`:                         routing.ErrMalformed,
		`{"state":"running"`:           routing.ErrMalformed,
		`{"state":"running"} trailing`: routing.ErrMalformed,
		`[{"state":"running"},{}]`:     routing.ErrMalformed,
		`[[{"state":"running"}]]`:      routing.ErrMalformed,
		`{"host_ip":"10.0.0.1"}`:       routing.ErrMalformed,
		`{"state":null}`:               routing.ErrMalformed,
		`{"state":1}`:                  routing.ErrMalformed,
		`{"state":["running"]}`:        routing.ErrMalformed,
		`{"state":""}`:                 routing.ErrMalformed,
		`{"state":"hibernating"}`:      routing.ErrMalformed,
		`{"State":"running"}`:          routing.ErrMalformed,
		`{"state":"running","sandbox_id":"other"}`: routing.ErrMalformed,
	} {
		_, err := parse(t, record)
		if !errors.Is(err, want) || errors.Is(err, routing.ErrGone) != (want == routing.ErrGone) {
			t.Errorf("%s: %v, want %v", record, err, want)
		}
	}
}

func TestRecordStates(t *testing.T) {
	for name, want := range map[string]routing.State{
		"pending": routing.StateStarting, "running": routing.StateRunning, "RUNNING": routing.StateRunning,
		"stopped": routing.StatePaused, "archiving": routing.StatePaused, "archived": routing.StatePaused,
		"deleted": routing.StateDeleted,
	} {
		if r, err := parse(t, `{"state":"`+name+`"}`); err != nil || r.State != want {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestAPendingRecordWithAFailedPhaseHasFailed(t *testing.T) {
	const failed = `"phases":{"image_pull":{"status":"failed","message":"no such image"}}}`
	if r, err := parse(t, `{"state":"pending",`+failed); err != nil || r.State != routing.StateFailed || r.Problem != "image_pull: failed: no such image" {
		t.Errorf("%+v, %v", r, err)
	}
	// What runs has been started all the same, say by a second try.
	if r, err := parse(t, `{"state":"running",`+failed); err != nil || r.State != routing.StateRunning || r.Problem != "" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := parse(t, `{"state":"pending","phases":{"image_pull":{"status":"running"}}}`); err != nil || r.State != routing.StateStarting {
		t.Errorf("%+v, %v", r, err)
	}
}

// Field reports F08, E09 and M13.
func TestRecordAddress(t *testing.T) {
	for field, want := range map[string]struct{ addr, problem string }{
		`"10.0.0.5"`:        {addr: "10.0.0.5"},
		`"fd00::5"`:         {addr: "fd00::5"},
		`"::ffff:10.0.0.5"`: {addr: "10.0.0.5"},
		`"127.0.0.1"`:       {addr: "127.0.0.1"}, // whether it may be dialled is not decided here
		`null`:              {},
		`""`:                {},
		`"default"`:         {},
		`"ray-worker-7"`:    {problem: "host_ip is not an IP address"},
		`"10.0.0.5:22@x"`:   {problem: "host_ip is not an IP address"},
		`"10.0.0.5:22"`:     {problem: "host_ip is not an IP address"},
		`"[fd00::5]"`:       {problem: "host_ip is not an IP address"},
		`"fe80::1%eth0"`:    {problem: "host_ip is not an IP address"},
		`"010.0.0.5"`:       {problem: "host_ip is not an IP address"},
		`" 10.0.0.5"`:       {problem: "host_ip is not an IP address"},
		`167772165`:         {problem: "host_ip is not a string"},
		`{"a":1}`:           {problem: "host_ip is not a string"},
	} {
		r, err := parse(t, `{"state":"running","host_ip":`+field+`}`)
		if err != nil {
			t.Errorf("%s: %v", field, err)
			continue
		}
		got := ""
		if r.Host.IsValid() {
			got = r.Host.String()
		}
		if got != want.addr || r.Problem != want.problem {
			t.Errorf("%s: %q, problem %q; want %+v", field, got, r.Problem, want)
		}
	}
}

func TestRecordPorts(t *testing.T) {
	for field, want := range map[string]struct {
		ports   string
		problem string
	}{
		`{"8080":31003}`:   {ports: "8080:31003 "},
		`{"8080":"31003"}`: {ports: "8080:31003 "},
		`{}`:               {},
		`null`:             {},
		`{"8080":0}`:       {problem: "port_mapping has 1 entries that are not ports"},
		`{"8080":null,"80":81}`: {
			ports: "80:81 ", problem: "port_mapping has 1 entries that are not ports"},
		`{"0":1,"65536":1,"-1":1,"http":1,"080":1,"1":65536,"2":-1,"3":1.5,"4":"x","5":[1],"6":true}`: {
			problem: "port_mapping has 11 entries that are not ports"},
		`[8080]`: {problem: "port_mapping is not an object"},
		`"8080"`: {problem: "port_mapping is not an object"},
	} {
		r, err := parse(t, `{"state":"running","port_mapping":`+field+`}`)
		if err != nil || r.Ports.String() != want.ports || r.Problem != want.problem {
			t.Errorf("%s: %+v, %v; want %+v", field, r, err, want)
		}
	}
}

// Field report F05.
func TestRecordLifecycleChangesWithTheLifeAndNothingElse(t *testing.T) {
	base, err := parse(t, rayRecord)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]struct {
		old, new string
		same     bool
	}{
		"restarted":          {"14:12:44", "15:00:00", false},
		"made anew":          {"14:12:10", "15:00:00", false},
		"moved":              {"10.20.30.41", "10.20.30.42", false},
		"ports moved":        {"31003", "31004", false},
		"other order":        {`"22":31002,"8080":31003`, `"8080":31003,"22":31002`, true},
		"numbers as strings": {"31003", `"31003"`, true},
		"metadata changed":   {"9.9.9.9", "8.8.8.8", true},
		"state changed":      {`"state":"running"`, `"state":"stopped"`, true},
	} {
		record := strings.Replace(rayRecord, change.old, change.new, 1)
		if record == rayRecord {
			t.Fatalf("%s changes nothing", name)
		}
		r, err := parse(t, record)
		if err != nil || (r.Lifecycle == base.Lifecycle) != change.same {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestRecordFieldNamesAreConfigurable(t *testing.T) {
	names := Fields{State: "phase", HostIP: "ip"}.withDefaults()
	r, err := parseRecord("a", []byte(`{"phase":"running","ip":"10.0.0.1","state":"deleted","port_mapping":{"1":2}}`), names, nil)
	if err != nil || r.State != routing.StateRunning || r.Host != netip.MustParseAddr("10.0.0.1") || r.Ports.String() != "1:2 " {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestRecordErrorsDoNotQuoteTheRecord(t *testing.T) {
	for _, record := range []string{`{"rock_authorization_encrypted":"s3cret"`, `["s3cret"]`, `{"state":["s3cret"]}`, `s3cret`} {
		if _, err := parse(t, record); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", record, err)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, record := range []string{
		rayRecord, "[" + rayRecord + "]", `[]`, `{}`, `null`, `[null]`, `{"state":"running"`, `{"state":1}`,
		`{"state":"running","host_ip":"::1","port_mapping":{"1":"2","x":[]}}`, "\xff", `[[[[[[`, `{"state":"\ud800"}`,
		"{}\v",
	} {
		f.Add([]byte(record))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		r, err := parseRecord("sbx-1", record, rockFields, nil)
		if err != nil {
			if r != nil || errors.Is(err, routing.ErrGone) == errors.Is(err, routing.ErrMalformed) {
				t.Fatalf("route %+v, error %v", r, err)
			}
			if errors.Is(err, routing.ErrGone) {
				switch compact(record) {
				case "[]", "{}", "null", "[null]", "[{}]", "[[]]":
				default:
					t.Fatalf("%q is said to be gone", record)
				}
			}
			return
		}
		if !json.Valid(record) || r.State == routing.StateUnknown || r.SandboxID != "sbx-1" || r.Lifecycle == "" || r.Host.Zone() != "" {
			t.Fatalf("%q: %+v", record, r)
		}
		for inside, outside := range r.Ports.All() {
			if inside == 0 || outside == 0 {
				t.Fatalf("%q: port 0", record)
			}
		}
	})
}

func compact(record []byte) string {
	var b strings.Builder
	for _, c := range string(record) {
		if !strings.ContainsRune(" \t\r\n", c) {
			b.WriteRune(c)
		}
	}
	return b.String()
}
