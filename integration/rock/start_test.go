package rock

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// exactly compares frames after the start event, whose pid is arbitrary.
func exactly(t *testing.T, r reply, want ...string) {
	t.Helper()
	if r.status != 200 || r.header.Get("Content-Type") != "application/connect+json" {
		t.Fatalf("got %d %s: %s", r.status, r.header.Get("Content-Type"), r.body)
	}
	got := frames(t, r.body)
	if len(got) == 0 || !regexp.MustCompile(`^0 \{"event":\{"start":\{"pid":[1-9][0-9]*\}\}\}$`).MatchString(got[0]) {
		t.Fatalf("no start event: got %q", got)
	}
	if strings.Join(got[1:], "\n") != strings.Join(want, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got[1:], "\n"), strings.Join(want, "\n"))
	}
}

func data(stream, text string) string {
	return `0 {"event":{"data":{"` + stream + `":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"}}}`
}

func TestCommandGivesOneStdoutAndOneStderrMessageAfterItFinished(t *testing.T) {
	g := newRig(t, Options{})
	g.create("c")
	exactly(t, g.start("c", command(`echo one; sleep 0.05; echo two; printf "%s" "$FROM" >&2`)),
		data("stdout", "one\ntwo\n"), data("stderr", "create"), `0 {"event":{"end":{"exitCode":0,"exited":true}}}`, `2 {}`)
}

func TestNonZeroExitIsANormalEndWithAnErrorText(t *testing.T) {
	g := newRig(t, Options{})
	g.create("c")
	exactly(t, g.start("c", command("exit 3")), `0 {"event":{"end":{"error":"exit status 3","exitCode":3,"exited":true}}}`, `2 {}`)
	exactly(t, g.start("c", command("kill -9 $$")), `0 {"event":{"end":{"error":"exit status -9","exitCode":-9,"exited":true}}}`, `2 {}`)
}

func TestCommandEnvironmentAndWorkingDirectory(t *testing.T) {
	g := newRig(t, Options{})
	g.create("c")
	b, _ := json.Marshal(map[string]any{"process": map[string]any{"cmd": "/bin/bash", "args": []string{"-l", "-c", `echo "$FROM:$PWD"`},
		"envs": map[string]string{"FROM": "command"}, "cwd": "/home"}, "stdin": false, "pty": nil})
	s := g.c.Sandbox("c")
	box, err := s.Box()
	if err != nil {
		t.Fatal(err)
	}
	home := "/home"
	if box.Isolation() == "none" {
		home = box.Root() + home
	}
	exactly(t, g.start("c", string(envelope(0, b))), data("stdout", "command:"+home+"\n"), `0 {"event":{"end":{"exitCode":0,"exited":true}}}`, `2 {}`)
}

func TestBadWorkingDirectoryFailsAfterTheStartEvent(t *testing.T) {
	g := newRig(t, Options{})
	g.create("c")
	b := `{"process":{"cmd":"/bin/bash","args":["-l","-c","true"],"cwd":"/nope"}}`
	exactly(t, g.start("c", string(envelope(0, []byte(b)))),
		`2 {"error":{"code":"invalid_argument","message":"working directory /nope: no such file or directory"}}`)
}

func TestDeadlineKillsTheCommand(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("c")
	exactly(t, g.start("c", command("echo lost; sleep 1000"), "Connect-Timeout-Ms", "100"),
		`2 {"error":{"code":"deadline_exceeded","message":"command timed out"}}`)
	box, err := s.Box()
	if err != nil {
		t.Fatal(err)
	}
	until(t, "no process", func() bool { return len(box.Processes()) == 0 })
}

func TestKeepalivesComeAtTheAskedInterval(t *testing.T) {
	g := newRig(t, Options{})
	g.create("c")
	const interval = 20 * time.Millisecond
	begun := time.Now()
	got := frames(t, g.start("c", command("sleep 0.3"), "Keepalive-Ping-Interval", "0.02").body)
	most := int(time.Since(begun) / interval) // a busy machine makes the command longer
	n := 0
	for _, f := range got {
		if f == `0 {"event":{"keepalive":{}}}` {
			n++
		}
	}
	if n < 3 || n > most {
		t.Fatalf("got %d keepalives, want 3 to %d, in %q", n, most, got)
	}
}

func TestStartRefusesWhatROCKRefusesWithHTTP200(t *testing.T) {
	g := newRig(t, Options{})
	stopped := g.create("paused")
	if err := stopped.Stop(Stopped); err != nil {
		t.Fatal(err)
	}
	g.create("c")
	ok := command("true")
	env := func(s string) string { return string(envelope(0, []byte(s))) }
	for name, c := range map[string]struct {
		id, body string
		headers  []string
		code     string
	}{
		"unknown sandbox":     {"never", ok, nil, "not_found"},
		"stopped sandbox":     {"paused", ok, nil, "not_found"},
		"no sandbox header":   {"", ok, nil, "invalid_argument"},
		"no timeout":          {"c", ok, []string{"Connect-Timeout-Ms", ""}, "unimplemented"},
		"timeout 0":           {"c", ok, []string{"Connect-Timeout-Ms", "0"}, "unimplemented"},
		"timeout 85001":       {"c", ok, []string{"Connect-Timeout-Ms", "85001"}, "invalid_argument"},
		"timeout 1.5":         {"c", ok, []string{"Connect-Timeout-Ms", "1.5"}, "invalid_argument"},
		"timeout -1":          {"c", ok, []string{"Connect-Timeout-Ms", "-1"}, "invalid_argument"},
		"keepalive 0":         {"c", ok, []string{"Keepalive-Ping-Interval", "0"}, "invalid_argument"},
		"keepalive 61":        {"c", ok, []string{"Keepalive-Ping-Interval", "61"}, "invalid_argument"},
		"keepalive text":      {"c", ok, []string{"Keepalive-Ping-Interval", "soon"}, "invalid_argument"},
		"keepalive NaN":       {"c", ok, []string{"Keepalive-Ping-Interval", "NaN"}, "invalid_argument"},
		"stdin":               {"c", env(`{"process":{"cmd":"/bin/bash","args":["-l","-c","cat"]},"stdin":true}`), nil, "unimplemented"},
		"pty":                 {"c", env(`{"process":{"cmd":"/bin/bash","args":["-i","-l"]},"pty":{"size":{"cols":80,"rows":24}}}`), nil, "unimplemented"},
		"tag":                 {"c", env(`{"process":{"cmd":"/bin/bash","args":["-l","-c","true"]},"tag":"t"}`), nil, "unimplemented"},
		"other program":       {"c", env(`{"process":{"cmd":"/bin/sh","args":["-l","-c","true"]}}`), nil, "invalid_argument"},
		"NUL":                 {"c", env(`{"process":{"cmd":"/bin/bash","args":["-l","-c","a\u0000b"]}}`), nil, "invalid_argument"},
		"not JSON":            {"c", env(`nope`), nil, "invalid_argument"},
		"empty body":          {"c", "", nil, "invalid_argument"},
		"cut envelope":        {"c", ok[:10], nil, "invalid_argument"},
		"two envelopes":       {"c", ok + ok, nil, "invalid_argument"},
		"compressed envelope": {"c", string(envelope(1, []byte("x"))), nil, "invalid_argument"},
		"envelope over 1 MiB": {"c", string(envelope(0, bytes.Repeat([]byte(" "), 1<<20+1))), nil, "invalid_argument"},
	} {
		r := g.start(c.id, c.body, c.headers...)
		got := frames(t, r.body)
		if r.status != 200 || len(got) != 1 || !strings.HasPrefix(got[0], `2 {"error":{"code":"`+c.code+`"`) {
			t.Errorf("%s: got %d %q, want %s", name, r.status, got, c.code)
		}
	}
	if got := frames(t, g.start("paused", ok).body)[0]; got != `2 {"error":{"code":"not_found","message":"sandbox is not running"}}` {
		t.Errorf("got %s", got)
	}
}

func TestCommandsOverTheLimitAreResourceExhausted(t *testing.T) {
	g := newRig(t, Options{MaxCommands: 1})
	g.create("c")
	first := g.open("POST", g.proxy.URL()+"/process.Process/Start", command("sleep 1000"), sandboxHeader, "c", "Connect-Timeout-Ms", "85000")
	if got := frames(t, g.start("c", command("true")).body); !strings.Contains(got[0], "resource_exhausted") {
		t.Fatalf("got %q", got)
	}
	_ = first.Body.Close()
}

func TestStartEventComesBeforeTheCommandEnds(t *testing.T) {
	g := newRig(t, Options{})
	g.create("c")
	resp := g.open("POST", g.proxy.URL()+"/process.Process/Start", command("read x < /home/user/gate; echo $x"), sandboxHeader, "c", "Connect-Timeout-Ms", "20000")
	defer func() { _ = resp.Body.Close() }()
	var prefix [5]byte
	if _, err := io.ReadFull(resp.Body, prefix[:]); err != nil || g.c.Commands() != 1 {
		t.Fatalf("%v, %d commands", err, g.c.Commands())
	}
}

func TestClientThatLeavesDoesNotStopTheCommand(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("c")
	box, err := s.Box()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", g.proxy.URL()+"/process.Process/Start", strings.NewReader(command("until [ -e go ]; do sleep 0.01; done; echo done > witness")))
	req.Header.Set(sandboxHeader, "c")
	req.Header.Set("Connect-Timeout-Ms", "20000")
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = resp.Body.Close()
	until(t, "the exchange is over", func() bool { return g.c.Faults().Live(Match{Sandbox: "c"}) == 0 })
	if err := os.WriteFile(box.Root()+"/home/user/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	until(t, "the command finished", func() bool { b, _ := os.ReadFile(box.Root() + "/home/user/witness"); return string(b) == "done\n" })
}

func TestKillDuringACommandIsUnavailable(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("c")
	resp := g.open("POST", g.proxy.URL()+"/process.Process/Start", command("echo lost; sleep 1000"), sandboxHeader, "c", "Connect-Timeout-Ms", "20000")
	defer func() { _ = resp.Body.Close() }()
	if err := s.Stop(Deleted); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	exactly(t, reply{resp.StatusCode, resp.Header, string(b)}, `2 {"error":{"code":"unavailable","message":"sandbox command service is unavailable"}}`)
}

func TestWhenTheProxyProcessStopsConnectionsJustClose(t *testing.T) {
	g := newRig(t, Options{})
	g.create("c")
	resp := g.open("POST", g.proxy.URL()+"/process.Process/Start", command("sleep 1000"), sandboxHeader, "c", "Connect-Timeout-Ms", "20000")
	defer func() { _ = resp.Body.Close() }()
	if err := g.c.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err == nil || len(frames(t, string(b))) != 1 {
		t.Fatalf("got %q %v", b, err)
	}
}

func TestLargeOutputComesInOneMessage(t *testing.T) {
	g := newRig(t, Options{})
	g.create("c")
	got := frames(t, g.start("c", command("head -c 3000000 /dev/zero")).body)
	if len(got) != 4 || len(got[1]) < 4_000_000 {
		t.Fatalf("got %d frames", len(got))
	}
}

func FuzzStartRequest(f *testing.F) {
	f.Add([]byte(command("true")), "1000", "50")
	f.Add([]byte{0, 0, 0, 0, 200}, "", "x")
	f.Fuzz(func(t *testing.T, body []byte, timeout, keepalive string) {
		r := &http.Request{Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{"Connect-Timeout-Ms": {timeout}, "Keepalive-Ping-Interval": {keepalive}}}
		req, err := parseStart(r)
		if err == nil && (req.timeout <= 0 || req.keepalive <= 0 || req.Process.Cmd != "/bin/bash") {
			t.Fatalf("accepted %+v", req)
		}
	})
}
