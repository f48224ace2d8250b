package envd

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
)

func TestACommandSurvivesItsStream(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := s.process.Start(ctx, connect.NewRequest(reading("read x; echo still here")))
		if err != nil {
			t.Fatal(err)
		}
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		pid := stream.Msg().GetEvent().GetStart().GetPid()
		cancel()
		_ = stream.Close()
		f := s.connect(t, byPid(pid))
		s.send(t, pid, stdin("\n"))
		if end := f.end(); end.GetExitCode() != 0 || f.stdout.String() != "still here\n" {
			t.Errorf("end event %v, stdout %q", end, f.stdout.String())
		}
	})
}

func TestTheDeadlineKillsTheCommand(t *testing.T) {
	for _, d := range dialects[:4] { // gRPC has a header of its own
		t.Run(d.name, func(t *testing.T) {
			s := serve(t, d, Options{})
			req := connect.NewRequest(bash("echo up; sleep 1000"))
			req.Header().Set("Connect-Timeout-Ms", "300")
			f := s.start(t, req)
			other := s.connect(t, byPid(f.pid))
			for {
				event := f.next()
				if event == nil {
					break
				}
				if event.GetEnd() != nil {
					t.Fatalf("the stream told of the end: %v", event)
				}
			}
			wantCode(t, f.stream.Err(), connect.CodeDeadlineExceeded)
			if end := other.end(); end.GetStatus() != "signal: killed" {
				t.Errorf("to the other listener the command ended with %v", end)
			}
		})
	}
}

// lateContext is past its deadline and has not noticed.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

func TestAnEndAfterTheDeadlineIsADeadline(t *testing.T) {
	s := open(t, Options{})
	c, events, err := s.handler.processes.start(t.Context(), bash("true"))
	if err != nil {
		t.Fatal(err)
	}
	defer events.leave()
	<-c.done // so that the end event is the next thing to relay
	err = s.handler.processes.relay(lateContext{t.Context()}, http.Header{}, c, events, func(event *processpb.ProcessEvent) error {
		if event.GetEnd() != nil {
			t.Errorf("told of the end: %v", event)
		}
		return nil
	})
	wantCode(t, err, connect.CodeDeadlineExceeded)
}

func TestTheDeadlineOfConnectEndsOnlyTheStream(t *testing.T) {
	s := open(t, Options{})
	f := s.start(t, connect.NewRequest(reading("read x; echo alive")))
	req := connect.NewRequest(&processpb.ConnectRequest{Process: byPid(f.pid)})
	req.Header().Set("Connect-Timeout-Ms", "50")
	stream, err := s.process.Connect(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
	}
	wantCode(t, stream.Err(), connect.CodeDeadlineExceeded)
	s.send(t, f.pid, stdin("\n"))
	if f.end(); f.stdout.String() != "alive\n" {
		t.Errorf("stdout %q", f.stdout.String())
	}
}

func TestAQuietStreamSaysThatItLives(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		req := connect.NewRequest(reading("read x"))
		req.Header().Set("Keepalive-Ping-Interval", "0.02")
		f := s.start(t, req)
		f.until("three keepalives", func() bool { return f.keepalives == 3 })
		s.send(t, f.pid, stdin("\n"))
		f.end()
	})
}

func TestABackgroundChildDoesNotHoldTheEnd(t *testing.T) {
	s := open(t, Options{})
	got := s.run(t, "sleep 30 & echo parent is done")
	if got.stdout != "parent is done\n" || got.end.GetExitCode() != 0 {
		t.Errorf("stdout %q, end %v", got.stdout, got.end)
	}
}

func TestALotOfOutputArrivesWhole(t *testing.T) {
	const size = 8 << 20
	s := open(t, Options{})
	got := s.run(t, "head -c 8388608 /dev/zero | tr '\\0' x; printf end")
	if len(got.stdout) != size+3 || !strings.HasSuffix(got.stdout, "xend") {
		t.Errorf("%d bytes of output, want %d", len(got.stdout), size+3)
	}
}

func TestCloseCutsStreamsInsteadOfEndingThem(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		f := s.start(t, connect.NewRequest(bash("sleep 1000")))
		if err := s.handler.Close(); err != nil {
			t.Fatal(err)
		}
		if event := f.next(); event != nil {
			t.Fatalf("event %v after Close", event)
		}
		if f.stream.Err() == nil {
			t.Fatal("the stream ended as if all was well")
		}
	})
}

func TestATerminal(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		req := bash("stty -echo; stty size; read x; stty size")
		req.Pty = &processpb.PTY{Size: &processpb.PTY_Size{Cols: 80, Rows: 24}}
		f := s.start(t, connect.NewRequest(req))
		f.until("first size", func() bool { return strings.Contains(f.pty.String(), "24 80") })
		resized := &processpb.PTY{Size: &processpb.PTY_Size{Cols: 100, Rows: 30}}
		if _, err := s.process.Update(t.Context(), connect.NewRequest(&processpb.UpdateRequest{Process: byPid(f.pid), Pty: resized})); err != nil {
			t.Fatalf("Update: %v", err)
		}
		_, err := s.process.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: byPid(f.pid), Input: stdin("x")}))
		wantCode(t, err, connect.CodeFailedPrecondition)
		_, err = s.process.CloseStdin(t.Context(), connect.NewRequest(&processpb.CloseStdinRequest{Process: byPid(f.pid)}))
		wantCode(t, err, connect.CodeFailedPrecondition)
		s.send(t, f.pid, tty("\n"))
		if end := f.end(); end.GetExitCode() != 0 {
			t.Errorf("end event %v", end)
		}
		if !strings.HasSuffix(f.pty.String(), "30 100\r\n") {
			t.Errorf("terminal showed %q", f.pty.String())
		}
		if f.stdout.Len()+f.stderr.Len() != 0 {
			t.Error("a terminal has no stdout or stderr")
		}
	})
}

func TestTerminalInputNeedsATerminal(t *testing.T) {
	s := open(t, Options{})
	f := s.start(t, connect.NewRequest(reading("read x")))
	_, err := s.process.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: byPid(f.pid), Input: tty("x")}))
	wantCode(t, err, connect.CodeFailedPrecondition)
	_, err = s.process.Update(t.Context(), connect.NewRequest(&processpb.UpdateRequest{
		Process: byPid(f.pid), Pty: &processpb.PTY{Size: &processpb.PTY_Size{Cols: 1, Rows: 1}},
	}))
	wantCode(t, err, connect.CodeInternal)
}
