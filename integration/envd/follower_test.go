package envd

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
)

// bash is the request of an SDK's commands.run.
func bash(script string) *processpb.StartRequest {
	stdin := false
	return &processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: "/bin/bash", Args: []string{"-l", "-c", script}},
		Stdin:   &stdin,
	}
}

// reading is bash with an open standard input.
func reading(script string) *processpb.StartRequest {
	req := bash(script)
	stdin := true
	req.Stdin = &stdin
	return req
}

func byPid(pid uint32) *processpb.ProcessSelector {
	return &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Pid{Pid: pid}}
}

func byTag(tag string) *processpb.ProcessSelector {
	return &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Tag{Tag: tag}}
}

func stdin(data string) *processpb.ProcessInput {
	return &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: []byte(data)}}
}

func tty(data string) *processpb.ProcessInput {
	return &processpb.ProcessInput{Input: &processpb.ProcessInput_Pty{Pty: []byte(data)}}
}

// events is what Start and Connect have in common.
type events interface {
	Receive() bool
	Err() error
	Close() error
}

// inTime closes a stream with the test, or when it has lasted so long that a test must fail. A context with a deadline would not
// do: it travels to the server, where it bounds the command.
func inTime(t *testing.T, cancel context.CancelFunc, stream interface{ Close() error }) {
	late := time.AfterFunc(patience, cancel)
	t.Cleanup(func() {
		late.Stop()
		cancel()
		_ = stream.Close()
	})
}

// follower reads one event stream.
type follower struct {
	t      *testing.T
	stream events
	event  func() *processpb.ProcessEvent
	pid    uint32

	stdout, stderr, pty bytes.Buffer
	keepalives          int
}

// start starts a command and takes the start event in.
func (s *sandbox) start(t *testing.T, req *connect.Request[processpb.StartRequest]) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := s.process.Start(ctx, req)
	if err != nil {
		cancel()
		t.Fatalf("Start: %v", err)
	}
	inTime(t, cancel, stream)
	return (&follower{t: t, stream: stream, event: func() *processpb.ProcessEvent { return stream.Msg().GetEvent() }}).begin()
}

// connect joins a command and takes the start event in.
func (s *sandbox) connect(t *testing.T, selector *processpb.ProcessSelector) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := s.process.Connect(ctx, connect.NewRequest(&processpb.ConnectRequest{Process: selector}))
	if err != nil {
		cancel()
		t.Fatalf("Connect: %v", err)
	}
	inTime(t, cancel, stream)
	return (&follower{t: t, stream: stream, event: func() *processpb.ProcessEvent { return stream.Msg().GetEvent() }}).begin()
}

func (f *follower) begin() *follower {
	f.t.Helper()
	event := f.next()
	if event.GetStart() == nil {
		f.t.Fatalf("first event is %v, want start", event)
	}
	f.pid = event.GetStart().GetPid()
	return f
}

// next gives one event, nil at the end of the stream.
func (f *follower) next() *processpb.ProcessEvent {
	if !f.stream.Receive() {
		return nil
	}
	event := f.event()
	f.stdout.Write(event.GetData().GetStdout())
	f.stderr.Write(event.GetData().GetStderr())
	f.pty.Write(event.GetData().GetPty())
	if event.GetKeepalive() != nil {
		f.keepalives++
	}
	return event
}

// until reads events until holds.
func (f *follower) until(what string, holds func() bool) {
	f.t.Helper()
	for !holds() {
		event := f.next()
		if event == nil || event.GetEnd() != nil {
			f.t.Fatalf("stream ended (%v, %v) before %s; stdout %q, pty %q", event, f.stream.Err(), what, f.stdout.String(), f.pty.String())
		}
	}
}

func (f *follower) untilStdout(text string) {
	f.t.Helper()
	f.until("stdout "+text, func() bool { return strings.Contains(f.stdout.String(), text) })
}

// end reads to the end event and proves that the stream ends well right after it.
func (f *follower) end() *processpb.ProcessEvent_EndEvent {
	f.t.Helper()
	for {
		event := f.next()
		if event == nil {
			f.t.Fatalf("stream ended without an end event: %v", f.stream.Err())
		}
		if event.GetEnd() == nil {
			continue
		}
		if more := f.next(); more != nil || f.stream.Err() != nil {
			f.t.Fatalf("after the end event: %v, %v", more, f.stream.Err())
		}
		return event.GetEnd()
	}
}

// outcome is a finished command.
type outcome struct {
	stdout, stderr string
	end            *processpb.ProcessEvent_EndEvent
}

func (s *sandbox) run(t *testing.T, script string) outcome {
	t.Helper()
	f := s.start(t, connect.NewRequest(bash(script)))
	end := f.end()
	return outcome{f.stdout.String(), f.stderr.String(), end}
}

func (s *sandbox) send(t *testing.T, pid uint32, input *processpb.ProcessInput) {
	t.Helper()
	_, err := s.process.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: byPid(pid), Input: input}))
	if err != nil {
		t.Fatalf("SendInput: %v", err)
	}
}

func (s *sandbox) signal(t *testing.T, pid uint32, signal processpb.Signal) {
	t.Helper()
	_, err := s.process.SendSignal(t.Context(), connect.NewRequest(&processpb.SendSignalRequest{Process: byPid(pid), Signal: signal}))
	if err != nil {
		t.Fatalf("SendSignal: %v", err)
	}
}

func (s *sandbox) list(t *testing.T) []*processpb.ProcessInfo {
	t.Helper()
	resp, err := s.process.List(t.Context(), connect.NewRequest(&processpb.ListRequest{}))
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	return resp.Msg.GetProcesses()
}
