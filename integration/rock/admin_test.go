package rock

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestCreateEchoesTheTemplateAndTheCallersKey(t *testing.T) {
	g := newRig(t, Options{})
	r := g.do("POST", g.admin.URL()+"/sandboxes", `{"templateID":"base","timeout":300,"metadata":{},"secure":true,"allow_internet_access":true,
		"autoPause":false,"autoResume":{"enabled":false},"envVars":{}}`, "X-API-Key", "e2b_secret")
	var got map[string]any
	r.json(t, &got)
	id, _ := got["sandboxID"].(string)
	want := map[string]any{"sandboxID": id, "templateID": "base", "clientID": "rock", "envdVersion": "0.3.0", "envdAccessToken": "e2b_secret"}
	if r.status != http.StatusCreated || !reflect.DeepEqual(got, want) || len(id) != 32 || id[12] != '4' {
		t.Fatalf("got %d %v", r.status, got)
	}
}

func TestCreateModelIsStrict(t *testing.T) {
	g := newRig(t, Options{})
	for body, field := range map[string]string{
		`{"timeout":300,"metadata":{}}`:                                              "templateID",
		`{"templateID":" ","timeout":300,"metadata":{}}`:                             "templateID",
		`{"templateID":"t","metadata":{}}`:                                           "timeout",
		`{"templateID":"t","timeout":0,"metadata":{}}`:                               "timeout",
		`{"templateID":"t","timeout":"300","metadata":{}}`:                           "timeout",
		`{"templateID":"t","timeout":300.0,"metadata":{}}`:                           "timeout",
		`{"templateID":"t","timeout":true,"metadata":{}}`:                            "timeout",
		`{"templateID":"t","timeout":300}`:                                           "metadata",
		`{"templateID":"t","timeout":300,"metadata":{"n":1}}`:                        "metadata",
		`{"templateID":"t","timeout":300,"metadata":{"n":null}}`:                     "metadata",
		`{"templateID":"t","timeout":300,"metadata":{},"autoPauseMemory":true}`:      "autoPauseMemory",
		`{"templateID":"t","timeout":300,"metadata":{},"network":{}}`:                "network",
		`{"templateID":"t","timeout":300,"metadata":{},"mcp":{}}`:                    "mcp",
		`{"templateID":"t","timeout":300,"metadata":{},"iam":{}}`:                    "iam",
		`{"templateID":"t","timeout":300,"metadata":{},"volumeMounts":[]}`:           "volumeMounts",
		`{"templateID":"t","timeout":300,"metadata":{},"secure":"yes"}`:              "secure",
		`{"templateID":"t","timeout":300,"metadata":{"cpuCount":"0"}}`:               "cpuCount",
		`{"templateID":"t","timeout":300,"metadata":{"memoryMB":"1.5"}}`:             "memoryMB",
		`{"templateID":"t","timeout":300,"metadata":{"startup_timeout":"Infinity"}}`: "startup_timeout",
		`{"templateID":"t","timeout":300,"metadata":{"startup_timeout":"-1"}}`:       "startup_timeout",
		`[]`: "body", `null`: "body", `{} {}`: "body", ``: "body",
	} {
		r := g.do("POST", g.admin.URL()+"/sandboxes", body)
		var e struct {
			Code    int
			Message string
		}
		r.json(t, &e)
		if r.status != 400 || e.Code != 400 || !strings.Contains(e.Message, field) {
			t.Errorf("%s: got %d %s", body, r.status, r.body)
		}
	}
	if n := len(g.c.Records().(*MemoryRecords).Keys()); n != 0 {
		t.Fatalf("%d records were written", n)
	}
}

func TestReadyTemplateSuppliesResourcesAndSilencesColdStartFields(t *testing.T) {
	g := newRig(t, Options{Templates: map[string]Template{"tpl": {Image: "reg/img:1", CPUs: 4, MemoryMB: 16384, DiskMB: 10240}}})
	for body, want := range map[string]info{
		`{"templateID":"tpl","timeout":60,"metadata":{"ap-sandbox-id":"a","cpuCount":"bogus"}}`:                {TemplateID: "reg/img:1", CPUCount: 4, MemoryMB: 16384, DiskSizeMB: 10240},
		`{"templateID":"cold","timeout":60,"metadata":{"ap-sandbox-id":"b"}}`:                                  {TemplateID: "cold", CPUCount: 2, MemoryMB: 8192, DiskSizeMB: 51200},
		`{"templateID":"cold","timeout":60,"metadata":{"ap-sandbox-id":"c","cpuCount":"8","memoryMB":"1024"}}`: {TemplateID: "cold", CPUCount: 8, MemoryMB: 1024, DiskSizeMB: 51200},
	} {
		var made, got info
		g.do("POST", g.admin.URL()+"/sandboxes", body).json(t, &made)
		g.do("GET", g.admin.URL()+"/sandboxes/"+made.SandboxID, "").json(t, &got)
		if got.TemplateID != want.TemplateID || got.CPUCount != want.CPUCount || got.MemoryMB != want.MemoryMB || got.DiskSizeMB != want.DiskSizeMB {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}

func TestDetailHasTheSandboxIPAndTimesWithOffset(t *testing.T) {
	clk := newClock(time.Date(2026, 8, 21, 6, 12, 44, 900, time.UTC))
	g := newRig(t, Options{Now: clk.now, HostIP: "10.20.30.41"})
	g.create("sbx-1")
	g.do("GET", g.admin.URL()+"/sandboxes/sbx-1", "").want(t, 200, `{"sandboxID":"sbx-1","metadata":{"ap-sandbox-id":"sbx-1",`+
		`"e2b.agents.kruise.io/sandbox-ip":"10.20.30.41","team":"a b"},"state":"running","clientID":"rock","templateID":"python:3.11",`+
		`"envdVersion":"0.3.0","cpuCount":2,"memoryMB":8192,"diskSizeMB":51200,"startedAt":"2026-08-21T14:12:44+08:00","endAt":"2026-08-21T14:17:44+08:00"}`)
}

func TestStatesMapToRunningPausedAndNotFound(t *testing.T) {
	g := newRig(t, Options{})
	for state, want := range map[State]string{Running: "running", Stopped: "paused", Archived: "paused", Archiving: "", Deleted: ""} {
		s := g.create("s-" + string(state))
		if state != Running {
			if err := s.Stop(state); err != nil {
				t.Fatal(err)
			}
		}
		r := g.do("GET", g.admin.URL()+"/sandboxes/"+s.ID, "")
		if want == "" {
			r.want(t, 404, `{"code":404,"message":"sandbox `+s.ID+` not found"}`)
			continue
		}
		var d info
		r.json(t, &d)
		if d.State != want {
			t.Errorf("%s: got %+v", state, d)
		}
	}
	g.do("GET", g.admin.URL()+"/sandboxes/never", "").want(t, 404, `{"code":404,"message":"sandbox never not found"}`)
}

func TestPendingIsRunningToE2BAndIncompleteRecordsFail(t *testing.T) {
	failing := make(chan error)
	g := newRig(t, Options{FailStart: func(*Sandbox) error { return <-failing }})
	created := make(chan reply, 1)
	go func() {
		created <- g.do("POST", g.admin.URL()+"/sandboxes", `{"templateID":"t","timeout":300,"metadata":{"ap-sandbox-id":"p"}}`)
	}()
	var d info
	until(t, "address", func() bool { return g.record("alive:p")["host_ip"] != nil })
	g.do("GET", g.admin.URL()+"/sandboxes/p", "").json(t, &d)
	if d.State != "running" {
		t.Fatalf("got %+v", d)
	}
	if r := g.do("POST", g.admin.URL()+"/sandboxes/p/timeout", `{"timeout":60}`); r.status != 404 {
		t.Fatalf("set timeout while pending: got %d %s", r.status, r.body)
	}
	if r := g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "p"); r.status != 502 {
		t.Fatalf("health while pending: got %d", r.status)
	}
	failing <- errors.New("no space left")
	if r := <-created; r.status != 500 || !strings.Contains(r.body, `"code":500`) || !strings.Contains(r.body, "no space left") {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	rec := g.record("alive:p")
	if phase := rec["phases"].(map[string]any)["image_pull"].(map[string]any); phase["status"] != "failed" || rec["state"] != "pending" {
		t.Fatalf("got %v", rec)
	}
	if rec := g.record("timeout:p"); rec["auto_clear_time"] != "0" {
		t.Fatalf("got %v", rec)
	}
	close(failing)
}

func TestOpenSandboxHasNoAddressSoCreateAndGetFail(t *testing.T) {
	g := newRig(t, Options{Backend: OpenSandbox})
	r := g.do("POST", g.admin.URL()+"/sandboxes", `{"templateID":"t","timeout":300,"metadata":{"ap-sandbox-id":"os"}}`)
	if r.status != 500 {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	if r := g.do("GET", g.admin.URL()+"/sandboxes/os", ""); r.status != 500 {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	if got := frames(t, g.start("os", command("echo hi")).body); len(got) != 4 {
		t.Fatalf("commands are delegated: got %q", got)
	}
	if r := g.rpc("os", "Stat", `{"path":"/"}`); r.status != 503 {
		t.Fatalf("files are not: got %d %s", r.status, r.body)
	}
}

func TestSandboxIDIsTakenOnlyOnce(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("mine")
	if r := g.do("POST", g.admin.URL()+"/sandboxes", `{"templateID":"t","timeout":300,"metadata":{"ap-sandbox-id":"mine"}}`); r.status != 400 {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	if err := s.Stop(Deleted); err != nil {
		t.Fatal(err)
	}
	g.create("mine")
}

func TestCreateGoesOnWhenTheClientLeaves(t *testing.T) {
	gate := make(chan error)
	g := newRig(t, Options{FailStart: func(*Sandbox) error { return <-gate }})
	g.c.Faults().Add(Fault{Match: Match{Path: "/sandboxes"}, Kind: Reset, At: BeforeHeaders})
	errs := make(chan error, 1)
	go func() {
		_, err := g.client.Post(g.admin.URL()+"/sandboxes", "application/json", strings.NewReader(`{"templateID":"t","timeout":300,"metadata":{"ap-sandbox-id":"x"}}`))
		errs <- err
	}()
	until(t, "record", func() bool { return g.record("alive:x") != nil })
	g.c.Faults().Fire(Match{Path: "/sandboxes"}, Reset)
	if err := <-errs; err == nil {
		t.Fatal("the answer arrived")
	}
	close(gate)
	until(t, "running", func() bool { return g.c.Sandbox("x").State() == Running })
}

func TestDeleteIsIrreversibleAndTheSecondIs404(t *testing.T) {
	g := newRig(t, Options{})
	g.create("d")
	g.do("DELETE", g.admin.URL()+"/sandboxes/d", "").want(t, 204, "")
	g.do("DELETE", g.admin.URL()+"/sandboxes/d", "").want(t, 404, `{"code":404,"message":"sandbox d not found"}`)
	g.do("DELETE", g.admin.URL()+"/sandboxes/never", "").want(t, 404, `{"code":404,"message":"sandbox never not found"}`)
	if keys := g.c.Records().(*MemoryRecords).Keys(); len(keys) != 0 {
		t.Fatalf("left %v", keys)
	}
}

func TestSetTimeoutRoundsUpToMinutes(t *testing.T) {
	clk := newClock(time.Unix(1787552464, 0))
	g := newRig(t, Options{Now: clk.now})
	g.create("t")
	for seconds, want := range map[string][2]string{"1": {"1", "1787552524"}, "60": {"1", "1787552524"}, "61": {"2", "1787552584"}, "0": {"0", "1787552464"}, "2147483647": {"35791395", "3935036164"}} {
		g.do("POST", g.admin.URL()+"/sandboxes/t/timeout", `{"timeout":`+seconds+`}`).want(t, 204, "")
		if rec := g.record("timeout:t"); rec["auto_clear_time"] != want[0] || rec["expire_time"] != want[1] {
			t.Errorf("%s: got %v", seconds, rec)
		}
	}
	for _, body := range []string{`{"timeout":-1}`, `{"timeout":"60"}`, `{"timeout":60.0}`, `{"timeout":true}`, `{"timeout":2147483648}`, `{}`, `{"timeout":1,"x":2}`, `x`} {
		if r := g.do("POST", g.admin.URL()+"/sandboxes/t/timeout", body); r.status != 400 || !strings.Contains(r.body, `"code":400`) {
			t.Errorf("%s: got %d %s", body, r.status, r.body)
		}
	}
	g.do("POST", g.admin.URL()+"/sandboxes/no/timeout", `{"timeout":60}`).want(t, 404, `{"code":404,"message":"sandbox no not found"}`)
}

func TestExpiryStopsAndActivityRenewsButStatusChecksDoNot(t *testing.T) {
	clk := newClock(time.Unix(1_000_000, 0))
	g := newRig(t, Options{Now: clk.now, ScanInterval: -1})
	s := g.create("e")
	first := s.Expires()
	clk.add(4 * time.Minute)
	g.do("GET", g.admin.URL()+"/sandboxes/e", "")
	g.do("GET", g.proxy.URL()+"/health", "", sandboxHeader, "e")
	if !s.Expires().Equal(first) {
		t.Fatal("a status check renewed the deadline")
	}
	g.rpc("e", "Stat", `{"path":"/"}`)
	if got := s.Expires().Sub(first); got != 4*time.Minute {
		t.Fatalf("file activity moved the deadline by %s", got)
	}
	clk.add(5 * time.Minute)
	g.c.Scan()
	if s.State() != Running {
		t.Fatal("expired at its deadline, not after it")
	}
	clk.add(time.Second)
	g.c.Scan()
	if s.State() != Stopped || g.record("alive:e") != nil || g.record("timeout:e") != nil {
		t.Fatalf("got %s %v", s.State(), g.record("alive:e"))
	}
}

func TestExpiryScanRunsByItself(t *testing.T) {
	clk := newClock(time.Unix(1_000_000, 0))
	g := newRig(t, Options{Now: clk.now, ScanInterval: time.Millisecond})
	s := g.create("e")
	clk.add(time.Hour)
	until(t, "stopped", func() bool { return s.State() == Stopped })
}

func TestWhatAdminLacksIsAnsweredByFastAPI(t *testing.T) {
	g := newRig(t, Options{})
	g.create("f")
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/v2/sandboxes?metadata=a%3Db", 404, `{"detail":"Not Found"}`},
		{"POST", "/sandboxes/f/pause", 404, `{"detail":"Not Found"}`},
		{"POST", "/sandboxes/f/connect", 404, `{"detail":"Not Found"}`},
		{"POST", "/v2/sandboxes", 404, `{"detail":"Not Found"}`},
		{"GET", "/health", 404, `{"detail":"Not Found"}`},
		{"PUT", "/sandboxes/f", 405, `{"detail":"Method Not Allowed"}`},
		{"HEAD", "/sandboxes/f", 405, ``},
		{"GET", "/sandboxes", 405, `{"detail":"Method Not Allowed"}`},
		{"GET", "/sandboxes/f/timeout", 405, `{"detail":"Method Not Allowed"}`},
		{"GET", "/", 200, `{"message":"hello, ROCK!"}`},
	} {
		g.do(c.method, g.admin.URL()+c.path, "").want(t, c.status, c.body)
	}
	r := g.do("GET", g.admin.URL()+"/sandboxes/f/?a=%20b", "")
	if r.status != 307 || r.header.Get("Location") != g.admin.URL()+"/sandboxes/f?a=%20b" {
		t.Fatalf("got %d %v", r.status, r.header)
	}
}

func TestPauseExistsOnlyWhenAskedFor(t *testing.T) {
	g := newRig(t, Options{Pause: true})
	s := g.create("p")
	g.do("POST", g.admin.URL()+"/sandboxes/p/pause", "{}").want(t, 200, `{"forced":false}`)
	if s.State() != Stopped {
		t.Fatalf("got %s", s.State())
	}
	if r := g.do("POST", g.admin.URL()+"/sandboxes/p/pause", "{}"); r.status != 404 {
		t.Fatalf("got %d", r.status)
	}
}

func TestNativeRoutesAnswer200EvenWhenTheyFail(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("n")
	for _, srv := range []*Server{g.admin, g.proxy} {
		var ok struct {
			Status string
			Result map[string]any
		}
		g.do("GET", srv.URL()+native+"/get_status?sandbox_id=n", "").json(t, &ok)
		if ok.Status != "Success" || ok.Result["is_alive"] != true || ok.Result["state"] != "running" {
			t.Fatalf("got %+v", ok)
		}
		g.do("GET", srv.URL()+native+"/get_status?sandbox_id=no", "").want(t, 200,
			`{"error":"Sandbox no not found","message":"get status failed","result":{"code":4000,"exit_code":null,"failure_reason":"Sandbox no not found"},"status":"Failed"}`)
	}
	if r := g.do("POST", g.admin.URL()+native+"/stop", `{"sandbox_id":"n"}`); r.status != 200 || s.State() != Stopped {
		t.Fatalf("got %d %s", r.status, s.State())
	}
}

func TestUnhandledExceptionIsATracebackWithStatus500(t *testing.T) {
	g := newRig(t, Options{FailStart: func(*Sandbox) error { return nil }})
	fault := g.c.Faults().Add(Fault{Match: Match{Role: Admin}, Kind: AnswerWith, At: BeforeHandler, Answer: Traceback(), Times: 1})
	r := g.do("GET", g.admin.URL()+"/sandboxes/x", "")
	if r.status != 500 || !strings.HasPrefix(r.body, "Traceback (most recent call last):") || fault.Fired() != 1 {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	if r := g.do("GET", g.admin.URL()+"/sandboxes/x", ""); r.status != 404 {
		t.Fatalf("got %d", r.status)
	}
}

func TestCrossOriginRequestsAreAnsweredAsStarletteDoes(t *testing.T) {
	g := newRig(t, Options{})
	r := g.do("OPTIONS", g.admin.URL()+"/sandboxes", "", "Origin", "https://a.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-api-key")
	if r.status != 200 || r.header.Get("Access-Control-Allow-Origin") != "https://a.example" || r.header.Get("Access-Control-Allow-Headers") != "x-api-key" {
		t.Fatalf("got %d %v", r.status, r.header)
	}
	r = g.do("GET", g.admin.URL()+"/", "", "Origin", "https://a.example")
	if r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Access-Control-Allow-Credentials") != "true" {
		t.Fatalf("got %v", r.header)
	}
}

func FuzzCreateModel(f *testing.F) {
	for _, s := range []string{`{"templateID":"t","timeout":1,"metadata":{}}`, `{"timeout":1e3}`, `{"metadata":{"a":null}}`, `{"autoResume":3}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		req, err := parseCreate(b)
		if err == nil && (req.timeout <= 0 || req.templateID == "" || req.metadata == nil || req.env == nil) {
			t.Fatalf("%q was accepted as %+v", b, req)
		}
		_, _ = parseTimeout(b)
	})
}

func TestALazyAliveEventWaitsForAStatusQuestion(t *testing.T) {
	g := newRig(t, Options{LazyAlive: true})
	created := make(chan int, 1)
	go func() {
		created <- g.do("POST", g.admin.URL()+"/sandboxes", `{"templateID":"t","timeout":300,"metadata":{"ap-sandbox-id":"lazy"}}`).status
	}()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for asked := false; ; {
		select {
		case status := <-created:
			if status != 201 || !asked || g.c.Sandbox("lazy").State() != Running {
				t.Errorf("%d, asked: %v, %s", status, asked, g.c.Sandbox("lazy").State())
			}
			return
		case <-poll.C:
			if s := g.c.Sandbox("lazy"); s != nil {
				if state := s.State(); !asked && state != Pending {
					t.Fatalf("it is %s before anybody has asked", state)
				}
				g.do("GET", g.admin.URL()+native+"/get_status?sandbox_id=lazy", "")
				asked = true
			}
		case <-deadline.C:
			t.Fatal("it never runs")
		}
	}
}
