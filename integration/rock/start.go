package rock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// maxOutput bounds what one command may print: ROCK holds it all in memory, the double draws a line.
const maxOutput = 256 << 20

// startRequest is the message of process.Process/Start as far as ROCK reads it.
type startRequest struct {
	Process struct {
		Cmd  string            `json:"cmd"`
		Args []string          `json:"args"`
		Envs map[string]string `json:"envs"`
		Cwd  string            `json:"cwd"`
	} `json:"process"`
	Stdin *bool           `json:"stdin"`
	PTY   json.RawMessage `json:"pty"`
	Tag   json.RawMessage `json:"tag"`

	timeout   time.Duration
	keepalive time.Duration
}

// processStart runs a command. The answer is always HTTP 200; every failure is an EndStream.
func (c *Cluster) processStart(w http.ResponseWriter, r *http.Request, _ string) {
	req, err := parseStart(r)
	var s *Sandbox
	if err == nil {
		s, err = c.running(r)
	}
	if err == nil && !c.takeCommand() {
		err = &rpcError{codeExhausted, "too many running commands"}
	}
	if err != nil {
		streamError(w, connectCodeOf(err), err)
		return
	}
	s.touch()
	finished := make(chan outcome, 1)
	if !c.task(func() { defer c.giveCommand(); finished <- s.execute(req) }) {
		c.giveCommand()
		panic(http.ErrAbortHandler)
	}
	c.relay(w, r, req, finished)
}

// relay writes the stream: start at once, keepalives while the command runs, everything else when it has finished. A client that leaves
// ends the stream and not the command.
func (c *Cluster) relay(w http.ResponseWriter, r *http.Request, req startRequest, finished <-chan outcome) {
	streamHeader(w)
	event := func(v any) bool {
		_, err := w.Write(envelope(0, encode(map[string]any{"event": v})))
		return err == nil && http.NewResponseController(w).Flush() == nil
	}
	if !event(map[string]any{"start": map[string]int{"pid": c.syntheticPid()}}) {
		return
	}
	tick := time.NewTicker(req.keepalive)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-c.ctx.Done():
			panic(http.ErrAbortHandler) // the proxy process stops: its connections just close
		case <-tick.C:
			if !event(map[string]any{"keepalive": struct{}{}}) {
				return
			}
		case out := <-finished:
			if c.ctx.Err() != nil {
				panic(http.ErrAbortHandler)
			}
			if out.err != nil {
				_ = endStream(w, connectCodeOf(out.err), messageOf(out.err))
				return
			}
			if len(out.stdout) > 0 && !event(map[string]any{"data": map[string][]byte{"stdout": out.stdout}}) {
				return
			}
			if len(out.stderr) > 0 && !event(map[string]any{"data": map[string][]byte{"stderr": out.stderr}}) {
				return
			}
			end := map[string]any{"exitCode": out.code, "exited": true}
			if out.code != 0 {
				end["error"] = fmt.Sprintf("exit status %d", out.code)
			}
			if event(map[string]any{"end": end}) {
				_ = endStream(w, "", "")
			}
			return
		}
	}
}

// syntheticPid is not the command's.
func (c *Cluster) syntheticPid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	return 1000 + c.serial
}

func (c *Cluster) takeCommand() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commands >= c.opt.MaxCommands {
		return false
	}
	c.commands++
	return true
}

func (c *Cluster) giveCommand() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands--
}

// Commands counts the commands that the proxy role is running.
func (c *Cluster) Commands() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands
}

func parseStart(r *http.Request) (startRequest, error) {
	var req startRequest
	payload, err := oneEnvelope(r.Body)
	if err != nil {
		return req, err
	}
	if json.Unmarshal(payload, &req) != nil {
		return req, invalid("request is not a valid JSON message")
	}
	if set(req.PTY) || set(req.Tag) || req.Stdin != nil && *req.Stdin {
		return req, &rpcError{codeUnimplemented, "interactive and tagged commands are not supported"}
	}
	if req.timeout, err = commandTimeout(r.Header.Get("Connect-Timeout-Ms")); err != nil {
		return req, err
	}
	if req.keepalive, err = keepaliveInterval(r.Header.Get("Keepalive-Ping-Interval")); err != nil {
		return req, err
	}
	p := req.Process
	if p.Cmd != "/bin/bash" || len(p.Args) != 3 || p.Args[0] != "-l" || p.Args[1] != "-c" {
		return req, invalid("process must be /bin/bash -l -c <cmd>")
	}
	for k, v := range p.Envs {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return req, invalid("process.envs is invalid")
		}
	}
	if strings.Contains(p.Args[2]+p.Cwd, "\x00") {
		return req, invalid("process must not contain NUL")
	}
	return req, nil
}

func set(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// commandTimeout is required, and 0 (unlimited) is not offered.
func commandTimeout(v string) (time.Duration, error) {
	if v == "" {
		return 0, &rpcError{codeUnimplemented, "commands without a timeout are not supported"}
	}
	ms, err := strconv.ParseInt(v, 10, 64)
	switch {
	case err != nil || ms < 0 || ms > 85_000:
		return 0, invalid("Connect-Timeout-Ms must be an integer from 1 to 85000")
	case ms == 0:
		return 0, &rpcError{codeUnimplemented, "commands without a timeout are not supported"}
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func keepaliveInterval(v string) (time.Duration, error) {
	if v == "" {
		return 50 * time.Second, nil
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(n) || n < 0.01 || n > 60 {
		return 0, invalid("Keepalive-Ping-Interval must be from 0.01 to 60 seconds")
	}
	return time.Duration(n * float64(time.Second)), nil
}

// outcome of a command: either err or the rest.
type outcome struct {
	stdout, stderr []byte
	code           int
	err            error
}

// execute runs the command to its end as the rocklet does: until its outputs are closed, or until the deadline kills its group.
func (s *Sandbox) execute(req startRequest) outcome {
	gone := outcome{err: &rpcError{codeUnavailable, unreachableCommands}}
	life := s.container()
	box, err := life.open()
	if errors.Is(err, errDead) {
		return gone
	}
	if err != nil {
		return outcome{err: err}
	}
	p, err := box.Start(run.Command{Path: req.Process.Cmd, Args: req.Process.Args, Env: req.Process.Envs, Dir: req.Process.Cwd})
	var dir *run.DirError
	switch {
	case errors.As(err, &dir):
		return outcome{err: invalid(dir.Error())}
	case errors.Is(err, run.ErrClosed):
		return gone
	case err != nil:
		return outcome{err: &rpcError{codeInternal, "command could not be started"}}
	}
	defer p.Close()

	var out outcome
	var readers sync.WaitGroup
	var tooMuch [2]bool
	read := func(i int, from io.Reader, into *[]byte) {
		b, _ := io.ReadAll(io.LimitReader(from, maxOutput+1)) // ends by EOF or by p.Close
		if len(b) > maxOutput {
			tooMuch[i] = true
			_ = p.Kill()
		}
		*into = b
	}
	readers.Go(func() { read(0, p.Stdout(), &out.stdout) })
	readers.Go(func() { read(1, p.Stderr(), &out.stderr) })
	ended := make(chan struct{})
	go func() { readers.Wait(); <-p.Done(); close(ended) }()

	deadline := time.NewTimer(req.timeout)
	defer deadline.Stop()
	var cut error
	select {
	case <-ended:
	case <-deadline.C:
		cut = &rpcError{codeDeadlineExceeded, "command timed out"}
	case <-life.dead:
		cut = gone.err
	}
	if cut != nil {
		_ = p.Kill()
		<-p.Done()
		p.Close() // a child that left the group may hold the pipes
		<-ended
	}
	if life.over() && cut == nil {
		cut = gone.err // its output is worth nothing: the rocklet that would report it is gone
	}
	if tooMuch[0] || tooMuch[1] {
		cut = &rpcError{codeInternal, "command output is too large"}
	}
	if cut != nil {
		return outcome{err: cut}
	}
	exit := p.Wait()
	out.code = exit.Code
	if exit.Signal != 0 {
		out.code = -int(exit.Signal) // Python's returncode
	}
	return out
}
