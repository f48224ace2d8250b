package envd

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
)

func TestOutputArrivesWhileTheCommandRuns(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		f := s.start(t, connect.NewRequest(reading("echo one; echo two >&2; read line; echo got $line")))
		// The command waits for input now, so this output came before its end.
		f.until("both outputs", func() bool { return f.stdout.String() == "one\n" && f.stderr.String() == "two\n" })
		s.send(t, f.pid, stdin("abc\n"))
		end := f.end()
		if f.stdout.String() != "one\ngot abc\n" {
			t.Errorf("stdout %q", f.stdout.String())
		}
		if end.GetExitCode() != 0 || !end.GetExited() || end.Error != nil {
			t.Errorf("end event %v", end)
		}
	})
}

func TestANonZeroExitIsInTheEndEvent(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		end := s.run(t, "exit 3").end
		if end.GetExitCode() != 3 || !end.GetExited() || end.GetStatus() != "exit status 3" || end.GetError() != "exit status 3" {
			t.Errorf("end event %v", end)
		}
	})
}

func TestACommandWithoutStdinReadsNothing(t *testing.T) {
	s := open(t, Options{})
	if got := s.run(t, "cat; echo over"); got.stdout != "over\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	f := s.start(t, connect.NewRequest(bash("echo up; sleep 1000")))
	f.untilStdout("up")
	_, err := s.process.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: byPid(f.pid), Input: stdin("x")}))
	wantCode(t, err, connect.CodeFailedPrecondition)
}

func TestStdinIsOpenForClientsThatDoNotSayWhetherTheyWantIt(t *testing.T) {
	s := open(t, Options{})
	req := bash("cat")
	req.Stdin = nil
	f := s.start(t, connect.NewRequest(req))
	s.send(t, f.pid, stdin("hello"))
	f.untilStdout("hello")
}

func TestCloseStdinIsEndOfFile(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		f := s.start(t, connect.NewRequest(reading("cat; echo over; sleep 1000")))
		s.send(t, f.pid, stdin("text "))
		for range 2 { // the second is no error
			if _, err := s.process.CloseStdin(t.Context(), connect.NewRequest(&processpb.CloseStdinRequest{Process: byPid(f.pid)})); err != nil {
				t.Fatalf("CloseStdin: %v", err)
			}
		}
		f.untilStdout("text over\n")
		_, err := s.process.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: byPid(f.pid), Input: stdin("x")}))
		wantCode(t, err, connect.CodeFailedPrecondition)
	})
}

func TestStreamInputFeedsUntilTheClientIsDone(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		f := s.start(t, connect.NewRequest(reading("read a; read b; echo $a-$b")))
		stream := s.process.StreamInput(t.Context())
		for _, msg := range []*processpb.StreamInputRequest{
			{Event: &processpb.StreamInputRequest_Start{Start: &processpb.StreamInputRequest_StartEvent{Process: byPid(f.pid)}}},
			{Event: &processpb.StreamInputRequest_Data{Data: &processpb.StreamInputRequest_DataEvent{Input: stdin("one\n")}}},
			{Event: &processpb.StreamInputRequest_Keepalive{Keepalive: &processpb.StreamInputRequest_KeepAlive{}}},
			{Event: &processpb.StreamInputRequest_Data{Data: &processpb.StreamInputRequest_DataEvent{Input: stdin("two\n")}}},
		} {
			if err := stream.Send(msg); err != nil {
				t.Fatalf("Send: %v", err)
			}
		}
		if _, err := stream.CloseAndReceive(); err != nil {
			t.Fatalf("StreamInput: %v", err)
		}
		if f.end(); f.stdout.String() != "one-two\n" {
			t.Errorf("stdout %q", f.stdout.String())
		}
	})
}

func TestStreamInputMustNameTheCommandFirst(t *testing.T) {
	s := open(t, Options{})
	stream := s.process.StreamInput(t.Context())
	_ = stream.Send(&processpb.StreamInputRequest{Event: &processpb.StreamInputRequest_Data{
		Data: &processpb.StreamInputRequest_DataEvent{Input: stdin("x")},
	}})
	_, err := stream.CloseAndReceive()
	wantCode(t, err, connect.CodeInvalidArgument)
}

func TestInputThatACommandDoesNotReadGivesUpWithTheClient(t *testing.T) {
	s := open(t, Options{})
	f := s.start(t, connect.NewRequest(reading("echo up; sleep 1000")))
	f.untilStdout("up")
	c, err := s.handler.processes.find(byPid(f.pid))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan error)
	go func() {
		_, err := s.process.SendInput(ctx, connect.NewRequest(&processpb.SendInputRequest{
			Process: byPid(f.pid), Input: stdin(strings.Repeat("x", 1<<20)),
		}))
		answered <- err
	}()
	eventually(t, "the input is being written", func() bool {
		if !c.inputMu.TryLock() {
			return true
		}
		c.inputMu.Unlock()
		return false
	})
	cancel()
	if err := <-answered; err == nil {
		t.Fatal("a pipe took 1 MiB that nobody read")
	}
	eventually(t, "the command takes other calls again", func() bool {
		if !c.inputMu.TryLock() {
			return false
		}
		c.inputMu.Unlock()
		return true
	})
}

func TestEveryListenerGetsTheOutput(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		req := reading("echo before; read x; echo after")
		tag := "tagged"
		req.Tag = &tag
		first := s.start(t, connect.NewRequest(req))
		first.untilStdout("before")
		second, third := s.connect(t, byPid(first.pid)), s.connect(t, byTag("tagged"))
		if second.pid != first.pid || third.pid != first.pid {
			t.Errorf("pids %d, %d, %d", first.pid, second.pid, third.pid)
		}
		s.send(t, first.pid, stdin("\n"))
		for _, f := range []*follower{second, third, first} {
			if end := f.end(); end.GetExitCode() != 0 {
				t.Errorf("end event %v", end)
			}
		}
		if second.stdout.String() != "after\n" || third.stdout.String() != "after\n" {
			t.Errorf("late listeners got %q and %q", second.stdout.String(), third.stdout.String())
		}
	})
}

func TestUnknownCommandsAreNotFound(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		for _, unknown := range []*processpb.ProcessSelector{byPid(1), byTag("none")} {
			stream, err := s.process.Connect(t.Context(), connect.NewRequest(&processpb.ConnectRequest{Process: unknown}))
			if err == nil {
				stream.Receive()
				err = stream.Err()
				_ = stream.Close()
			}
			wantCode(t, err, connect.CodeNotFound)
			_, err = s.process.SendSignal(t.Context(), connect.NewRequest(&processpb.SendSignalRequest{
				Process: unknown, Signal: processpb.Signal_SIGNAL_SIGKILL,
			}))
			wantCode(t, err, connect.CodeNotFound)
			_, err = s.process.SendInput(t.Context(), connect.NewRequest(&processpb.SendInputRequest{Process: unknown, Input: stdin("x")}))
			wantCode(t, err, connect.CodeNotFound)
		}
		_, err := s.process.CloseStdin(t.Context(), connect.NewRequest(&processpb.CloseStdinRequest{}))
		wantCode(t, err, connect.CodeUnimplemented)
	})
}

func TestListShowsWhatRuns(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		if got := s.list(t); len(got) != 0 {
			t.Fatalf("a fresh sandbox runs %v", got)
		}
		req := bash("sleep 1000")
		tag := "t"
		req.Tag = &tag
		req.Process.Envs = map[string]string{"A": "b"}
		f := s.start(t, connect.NewRequest(req))
		got := s.list(t)
		if len(got) != 1 || got[0].GetPid() != f.pid || got[0].GetTag() != "t" || got[0].GetConfig().GetArgs()[2] != "sleep 1000" ||
			got[0].GetConfig().GetEnvs()["A"] != "b" {
			t.Fatalf("list is %v", got)
		}
		s.signal(t, f.pid, processpb.Signal_SIGNAL_SIGKILL)
		f.end()
		if got := s.list(t); len(got) != 0 {
			t.Errorf("after its end the command is still listed: %v", got)
		}
	})
}

func TestSignalsEndACommand(t *testing.T) {
	for signal, status := range map[processpb.Signal]string{
		processpb.Signal_SIGNAL_SIGTERM: "signal: terminated",
		processpb.Signal_SIGNAL_SIGKILL: "signal: killed",
	} {
		t.Run(status, func(t *testing.T) {
			s := open(t, Options{})
			f := s.start(t, connect.NewRequest(bash("echo up; exec sleep 1000")))
			f.untilStdout("up")
			s.signal(t, f.pid, signal)
			end := f.end()
			if end.GetExitCode() != -1 || end.GetExited() || end.GetStatus() != status || end.GetError() != status {
				t.Errorf("end event %v", end)
			}
		})
	}
}

func TestOtherSignalsAreUnimplemented(t *testing.T) {
	s := open(t, Options{})
	f := s.start(t, connect.NewRequest(bash("sleep 1000")))
	_, err := s.process.SendSignal(t.Context(), connect.NewRequest(&processpb.SendSignalRequest{Process: byPid(f.pid), Signal: 1}))
	wantCode(t, err, connect.CodeUnimplemented)
}

func TestAMissingWorkingDirectoryIsInvalid(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		req := bash("true")
		cwd := "/no/such/place"
		req.Process.Cwd = &cwd
		stream, err := s.process.Start(t.Context(), connect.NewRequest(req))
		if err == nil {
			if stream.Receive() {
				t.Fatalf("got event %v", stream.Msg())
			}
			err = stream.Err()
			_ = stream.Close()
		}
		wantCode(t, err, connect.CodeInvalidArgument)
		if !strings.Contains(err.Error(), "cwd '/no/such/place' does not exist") {
			t.Errorf("error is %v", err)
		}
	})
}

func TestEnvironmentOfTheRequestWins(t *testing.T) {
	s := open(t, Options{Env: map[string]string{"A": "sandbox", "B": "sandbox"}})
	req := bash("printf %s,%s $A $B")
	req.Process.Envs = map[string]string{"B": "request"}
	f := s.start(t, connect.NewRequest(req))
	if f.end(); f.stdout.String() != "sandbox,request" {
		t.Errorf("stdout %q", f.stdout.String())
	}
}
