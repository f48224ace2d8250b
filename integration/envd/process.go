package envd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
	"github.com/caddy-e2b/gateway/integration/envd/processpb/processpbconnect"
	"github.com/caddy-e2b/gateway/integration/rock/run"
)

var (
	errUnknownInput = errors.New("invalid input type")
	errNoStart      = errors.New("the first message must name the process")
)

// processService is process.Process over one box. Its methods answer with Connect errors whose codes are envd's: not_found
// for an unknown pid or tag, failed_precondition for input that the command cannot take, invalid_argument for a command that
// cannot be started.
type processService struct {
	box *run.Box
	// closing ends every stream by cutting its connection.
	closing context.Context

	mu       sync.Mutex
	commands map[uint32]*command
}

var _ processpbconnect.ProcessHandler = (*processService)(nil)

// List names the running commands in the order of their pids.
func (s *processService) List(context.Context, *connect.Request[processpb.ListRequest]) (*connect.Response[processpb.ListResponse], error) {
	resp := &processpb.ListResponse{}
	for _, c := range s.running() {
		resp.Processes = append(resp.Processes, c.info())
	}
	return connect.NewResponse(resp), nil
}

// Start starts a command and streams its events. Connect-Timeout-Ms bounds the command's life, not only the stream's; a client
// that leaves does not end the command.
func (s *processService) Start(ctx context.Context, req *connect.Request[processpb.StartRequest], stream *connect.ServerStream[processpb.StartResponse]) error {
	c, events, err := s.start(ctx, req.Msg)
	if err != nil {
		return err
	}
	defer events.leave()
	return s.relay(ctx, req.Header(), c, events, func(event *processpb.ProcessEvent) error {
		return stream.Send(&processpb.StartResponse{Event: event})
	})
}

// Connect streams the events of a running command from now on. Connect-Timeout-Ms bounds the stream only.
func (s *processService) Connect(ctx context.Context, req *connect.Request[processpb.ConnectRequest], stream *connect.ServerStream[processpb.ConnectResponse]) error {
	c, err := s.find(req.Msg.GetProcess())
	if err != nil {
		return err
	}
	events := c.out.listen()
	defer events.leave()
	return s.relay(ctx, req.Header(), c, events, func(event *processpb.ProcessEvent) error {
		return stream.Send(&processpb.ConnectResponse{Event: event})
	})
}

// Update resizes a terminal; an update without one changes nothing.
func (s *processService) Update(_ context.Context, req *connect.Request[processpb.UpdateRequest]) (*connect.Response[processpb.UpdateResponse], error) {
	c, err := s.find(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if req.Msg.GetPty() != nil {
		if err := c.proc.Resize(*sizeOf(req.Msg.GetPty())); err != nil {
			return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("error resizing tty: %w", err))
		}
	}
	return connect.NewResponse(&processpb.UpdateResponse{}), nil
}

// StreamInput feeds input until the client ends its stream.
func (s *processService) StreamInput(ctx context.Context, stream *connect.ClientStream[processpb.StreamInputRequest]) (*connect.Response[processpb.StreamInputResponse], error) {
	var c *command
	for stream.Receive() {
		switch event := stream.Msg().GetEvent().(type) {
		case *processpb.StreamInputRequest_Start:
			var err error
			if c, err = s.find(event.Start.GetProcess()); err != nil {
				return nil, err
			}
		case *processpb.StreamInputRequest_Data:
			if c == nil {
				return nil, connect.NewError(connect.CodeInvalidArgument, errNoStart)
			}
			if err := feed(ctx, c, event.Data.GetInput()); err != nil {
				return nil, err
			}
		case *processpb.StreamInputRequest_Keepalive:
		default:
			return nil, connect.NewError(connect.CodeUnimplemented, fmt.Errorf("invalid event type %T", event))
		}
	}
	if err := stream.Err(); err != nil {
		return nil, connect.NewError(connect.CodeUnknown, fmt.Errorf("error streaming input: %w", err))
	}
	return connect.NewResponse(&processpb.StreamInputResponse{}), nil
}

// SendInput feeds one piece of input.
func (s *processService) SendInput(ctx context.Context, req *connect.Request[processpb.SendInputRequest]) (*connect.Response[processpb.SendInputResponse], error) {
	c, err := s.find(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if err := feed(ctx, c, req.Msg.GetInput()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&processpb.SendInputResponse{}), nil
}

// SendSignal knows SIGTERM and SIGKILL.
func (s *processService) SendSignal(_ context.Context, req *connect.Request[processpb.SendSignalRequest]) (*connect.Response[processpb.SendSignalResponse], error) {
	c, err := s.find(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	var signal syscall.Signal
	switch req.Msg.GetSignal() {
	case processpb.Signal_SIGNAL_SIGKILL:
		signal = syscall.SIGKILL
	case processpb.Signal_SIGNAL_SIGTERM:
		signal = syscall.SIGTERM
	default:
		return nil, connect.NewError(connect.CodeUnimplemented, fmt.Errorf("invalid signal: %s", req.Msg.GetSignal()))
	}
	if err := c.signal(signal); err != nil {
		return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("error sending signal: %w", err))
	}
	return connect.NewResponse(&processpb.SendSignalResponse{}), nil
}

// CloseStdin gives a command end of file.
func (s *processService) CloseStdin(_ context.Context, req *connect.Request[processpb.CloseStdinRequest]) (*connect.Response[processpb.CloseStdinResponse], error) {
	c, err := s.find(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	if err := c.closeStdin(); err != nil {
		return nil, inputError("error closing stdin", err)
	}
	return connect.NewResponse(&processpb.CloseStdinResponse{}), nil
}

// start starts a command and listens to it from its first byte on.
func (s *processService) start(ctx context.Context, req *processpb.StartRequest) (*command, *listener, error) {
	config := req.GetProcess()
	what := run.Command{
		Path:  config.GetCmd(),
		Args:  config.GetArgs(),
		Env:   config.GetEnvs(),
		Dir:   config.GetCwd(),
		Stdin: req.Pty == nil && (req.Stdin == nil || req.GetStdin()),
	}
	if req.Pty != nil {
		what.Terminal = sizeOf(req.GetPty())
	}
	c := &command{config: config, tag: req.Tag, out: newFanout(s.closing.Done()), done: make(chan struct{})}
	events := c.out.listen()

	// Held across the start, so that close misses no command.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		return nil, nil, connect.NewError(connect.CodeUnavailable, run.ErrClosed)
	}
	proc, err := s.box.Start(what)
	if err != nil {
		return nil, nil, startError(config, err)
	}
	c.proc = proc
	pid := uint32(proc.Pid())
	s.commands[pid] = c
	stop := func() bool { return true }
	if deadline, ok := ctx.Deadline(); ok {
		timer := time.AfterFunc(time.Until(deadline), func() { _ = c.kill() })
		stop = timer.Stop
	}
	go c.follow(func() {
		stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.commands, pid)
	})
	return c, events, nil
}

// relay sends the start event, then a command's events with a keepalive in every quiet interval. It ends after the end event;
// once the deadline has passed it ends with deadline_exceeded, also when the end event came first because the deadline killed
// the command.
func (s *processService) relay(ctx context.Context, header http.Header, c *command, events *listener, send func(*processpb.ProcessEvent) error) error {
	if err := send(startEvent(c.proc.Pid())); err != nil {
		return err
	}
	interval := keepaliveInterval(header)
	keepalive := time.NewTicker(interval)
	defer keepalive.Stop()
	for {
		var event *processpb.ProcessEvent
		var ok bool
		select {
		case <-s.closing.Done():
			panic(http.ErrAbortHandler)
		case <-ctx.Done():
			return streamEnd(ctx)
		case <-keepalive.C:
			event = keepaliveEvent()
		case event, ok = <-events.events:
			if !ok {
				return nil
			}
			if s.closing.Err() != nil {
				panic(http.ErrAbortHandler)
			}
			if event.GetEnd() != nil && overdue(ctx) {
				return connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
			}
			keepalive.Reset(interval)
		}
		if err := send(event); err != nil {
			return err
		}
	}
}

// overdue reports whether the client's deadline has passed, even if ctx has not noticed yet.
func overdue(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

func streamEnd(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, ctx.Err())
	}
	return connect.NewError(connect.CodeCanceled, ctx.Err())
}

// find looks a running command up by pid or tag.
func (s *processService) find(selector *processpb.ProcessSelector) (*command, error) {
	switch by := selector.GetSelector().(type) {
	case *processpb.ProcessSelector_Pid:
		s.mu.Lock()
		c := s.commands[by.Pid]
		s.mu.Unlock()
		if c == nil {
			return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("process with pid %d not found", by.Pid))
		}
		return c, nil
	case *processpb.ProcessSelector_Tag:
		for _, c := range s.running() {
			if c.tag != nil && *c.tag == by.Tag {
				return c, nil
			}
		}
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("process with tag %s not found", by.Tag))
	default:
		return nil, connect.NewError(connect.CodeUnimplemented, fmt.Errorf("invalid input type %T", by))
	}
}

func (s *processService) running() []*command {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*command, 0, len(s.commands))
	for _, c := range s.commands {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *command) int { return a.proc.Pid() - b.proc.Pid() })
	return all
}

// close kills every command and waits for its end; closing must be done already.
func (s *processService) close() {
	for _, c := range s.running() {
		_ = c.kill()
		<-c.done
	}
}

func feed(ctx context.Context, c *command, input *processpb.ProcessInput) error {
	err := c.write(ctx, input)
	if err == nil {
		return nil
	}
	return inputError("error writing input", err)
}

func inputError(doing string, err error) error {
	code := connect.CodeInternal
	switch {
	case errors.Is(err, errUnknownInput):
		code = connect.CodeUnimplemented
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	case brokenInput(err):
		code = connect.CodeFailedPrecondition
	}
	return connect.NewError(code, fmt.Errorf("%s: %w", doing, reason(err)))
}

func startError(config *processpb.ProcessConfig, err error) error {
	if dirErr := (*run.DirError)(nil); errors.As(err, &dirErr) {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("cwd '%s' does not exist", dirErr.Dir))
	}
	code := connect.CodeInvalidArgument
	for _, shortage := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC} {
		if errors.Is(err, shortage) {
			code = connect.CodeResourceExhausted
		}
	}
	return connect.NewError(code, fmt.Errorf("error starting process '%s': %w", config.GetCmd(), reason(err)))
}

func sizeOf(pty *processpb.PTY) *run.Size {
	return &run.Size{Cols: uint16(pty.GetSize().GetCols()), Rows: uint16(pty.GetSize().GetRows())}
}
