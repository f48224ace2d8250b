package envd

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// The most bytes one data event carries.
const (
	pipeChunk     = 32 << 10
	terminalChunk = 16 << 10
)

var (
	errStdinUnavailable = errors.New("stdin not enabled or closed")
	errStdinOnTerminal  = errors.New("tty assigned to process — input should be written to the pty, not the stdin")
	errNoTerminal       = errors.New("tty not assigned to process — input should be written to the stdin, not the tty")
	errCloseOnTerminal  = errors.New("cannot close stdin for PTY process — send Ctrl+D (0x04) instead")
)

// command is one started command. It belongs to no stream: it lives until it ends, its time is up, or the sandbox goes.
type command struct {
	config *processpb.ProcessConfig
	tag    *string
	proc   *run.Process
	out    *fanout
	// done is closed after the end event was published.
	done chan struct{}

	// inputMu keeps inputs whole.
	inputMu     sync.Mutex
	stdinClosed bool
}

// follow publishes the command's output and, when the command has ended, its end event. Output of children that outlive the
// command is not waited for: whatever is in the pipe by then is the last that is told. ended is called before the end event.
func (c *command) follow(ended func()) {
	defer close(c.done)
	defer c.proc.Close()
	var readers sync.WaitGroup
	streams := []*os.File{c.proc.Stdout(), c.proc.Stderr(), c.proc.Terminal()}
	wraps := []func([]byte) *processpb.ProcessEvent_DataEvent{stdoutData, stderrData, terminalData}
	for i, stream := range streams {
		if stream != nil {
			readers.Go(func() { c.pump(stream, wraps[i]) })
		}
	}
	exit := c.proc.Wait()
	for _, stream := range streams {
		if stream != nil {
			_ = stream.SetReadDeadline(time.Unix(1, 0))
		}
	}
	readers.Wait()
	ended()
	c.out.finish(endEvent(exit))
}

// pump publishes what a stream gives until its end, or until the read deadline says that the command has ended.
func (c *command) pump(stream *os.File, wrap func([]byte) *processpb.ProcessEvent_DataEvent) {
	chunk := pipeChunk
	if stream == c.proc.Terminal() {
		chunk = terminalChunk
	}
	publish := func(data []byte) {
		c.out.publish(&processpb.ProcessEvent{Event: &processpb.ProcessEvent_Data{Data: wrap(data)}})
	}
	for {
		buf := make([]byte, chunk)
		n, err := stream.Read(buf)
		if n > 0 {
			publish(buf[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			drain(stream, publish)
			return
		}
		if err != nil {
			return // io.EOF; EIO from a terminal that everyone has left
		}
	}
}

// drain publishes what a stream holds right now, and no more than a pipe can hold: a child that goes on writing must not keep
// an ended command alive.
func drain(stream *os.File, publish func([]byte)) {
	raw, err := stream.SyscallConn()
	if err != nil || stream.SetReadDeadline(time.Time{}) != nil {
		return
	}
	left := 64 << 10
	_ = raw.Control(func(fd uintptr) {
		if size, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
			left = size
		}
	})
	for left > 0 {
		buf := make([]byte, min(pipeChunk, left))
		var n int
		var readErr error
		err := raw.Read(func(fd uintptr) bool {
			n, readErr = unix.Read(int(fd), buf)
			return true // never wait
		})
		if err != nil || readErr != nil || n == 0 {
			return
		}
		publish(buf[:n])
		left -= n
	}
}

// write feeds input and gives up when ctx is done, because a command that does not read blocks its pipe.
func (c *command) write(ctx context.Context, input *processpb.ProcessInput) error {
	c.inputMu.Lock()
	defer c.inputMu.Unlock()
	var to *os.File
	var data []byte
	switch in := input.GetInput().(type) {
	case *processpb.ProcessInput_Stdin:
		switch {
		case c.proc.Terminal() != nil:
			return errStdinOnTerminal
		case c.proc.Stdin() == nil || c.stdinClosed:
			return errStdinUnavailable
		}
		to, data = c.proc.Stdin(), in.Stdin
	case *processpb.ProcessInput_Pty:
		if c.proc.Terminal() == nil {
			return errNoTerminal
		}
		to, data = c.proc.Terminal(), in.Pty
	default:
		return errUnknownInput
	}
	_ = to.SetWriteDeadline(time.Time{})
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = to.SetWriteDeadline(time.Unix(1, 0))
	})
	_, err := to.Write(data)
	if !stop() {
		<-interrupted
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// closeStdin gives the command end of file; doing it again is no error.
func (c *command) closeStdin() error {
	if c.proc.Terminal() != nil {
		return errCloseOnTerminal
	}
	c.inputMu.Lock()
	defer c.inputMu.Unlock()
	if c.proc.Stdin() == nil || c.stdinClosed {
		return nil
	}
	c.stdinClosed = true
	return c.proc.Stdin().Close()
}

// kill takes the command's children along, so that nothing is left of it.
func (c *command) kill() error { return c.proc.Kill() }

func (c *command) signal(s syscall.Signal) error {
	if s == syscall.SIGKILL {
		return c.kill()
	}
	return c.proc.Signal(s)
}

func (c *command) info() *processpb.ProcessInfo {
	return &processpb.ProcessInfo{Config: c.config, Pid: uint32(c.proc.Pid()), Tag: c.tag}
}

// brokenInput reports whether a failed write means that the command no longer takes input.
func brokenInput(err error) bool {
	return errors.Is(err, errStdinUnavailable) || errors.Is(err, errStdinOnTerminal) || errors.Is(err, errNoTerminal) ||
		errors.Is(err, errCloseOnTerminal) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) ||
		errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}

func stdoutData(data []byte) *processpb.ProcessEvent_DataEvent {
	return &processpb.ProcessEvent_DataEvent{Output: &processpb.ProcessEvent_DataEvent_Stdout{Stdout: data}}
}

func stderrData(data []byte) *processpb.ProcessEvent_DataEvent {
	return &processpb.ProcessEvent_DataEvent{Output: &processpb.ProcessEvent_DataEvent_Stderr{Stderr: data}}
}

func terminalData(data []byte) *processpb.ProcessEvent_DataEvent {
	return &processpb.ProcessEvent_DataEvent{Output: &processpb.ProcessEvent_DataEvent_Pty{Pty: data}}
}

func startEvent(pid int) *processpb.ProcessEvent {
	return &processpb.ProcessEvent{Event: &processpb.ProcessEvent_Start{Start: &processpb.ProcessEvent_StartEvent{Pid: uint32(pid)}}}
}

func keepaliveEvent() *processpb.ProcessEvent {
	return &processpb.ProcessEvent{Event: &processpb.ProcessEvent_Keepalive{Keepalive: &processpb.ProcessEvent_KeepAlive{}}}
}

func endEvent(exit run.Exit) *processpb.ProcessEvent {
	status := exit.String()
	end := &processpb.ProcessEvent_EndEvent{ExitCode: int32(exit.Code), Exited: exit.Signal == 0, Status: status}
	if exit != (run.Exit{}) {
		end.Error = &status
	}
	return &processpb.ProcessEvent{Event: &processpb.ProcessEvent_End{End: end}}
}
