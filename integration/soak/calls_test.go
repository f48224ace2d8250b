package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
	"github.com/caddy-e2b/gateway/integration/envd/processpb/processpbconnect"
)

// kind is a kind of call. It is made on a sandbox, over HTTP/1.1 (0) or HTTP/2 (1), and returns nil if its answer is right.
type kind struct {
	name string
	make func(s *stage, b sandbox, protocol int) error
}

// kinds are the traffic: a call is of the kind that stands in the row, n of 100.
var kinds = []struct {
	kind
	of100 int
}{
	{kind{"stat", (*stage).stat}, 38},
	{kind{"download 64 KiB", (*stage).download}, 14},
	{kind{"upload 64 KiB", (*stage).upload}, 10},
	{kind{"command", (*stage).command}, 12},
	{kind{"WebSocket", (*stage).socket}, 6},
	{kind{"health", (*stage).health}, 5},
	{kind{"info", (*stage).info}, 5},
	{kind{"list", (*stage).list}, 2},
	{kind{"create, use, kill", (*stage).life}, 2},
	{kind{"client leaves a command", (*stage).leaveCommand}, 2},
	{kind{"client leaves a download", (*stage).leaveDownload}, 2},
	{kind{"client leaves an upload", (*stage).leaveUpload}, 1},
	{kind{"client leaves a WebSocket", (*stage).leaveSocket}, 1},
}

// kindOf spreads the kinds over the numbers of calls: 37 has no divisor in common with 100.
func kindOf(n int) kind {
	at := n * 37 % 100
	for _, k := range kinds {
		if at -= k.of100; at < 0 {
			return k.kind
		}
	}
	panic("the kinds are not 100")
}

func (s *stage) stat(b sandbox, protocol int) error {
	a := s.do(protocol, request{method: http.MethodPost, path: "/filesystem.Filesystem/Stat", body: `{"path": "` + file + `"}`, sandbox: b})
	if a.status != http.StatusOK || !strings.Contains(string(a.body), file) {
		return failure(a)
	}
	return a.err
}

func (s *stage) health(b sandbox, protocol int) error {
	a := s.do(protocol, request{method: http.MethodGet, path: "/health", sandbox: b})
	if a.status != http.StatusNoContent {
		return failure(a)
	}
	return a.err
}

func (s *stage) download(b sandbox, protocol int) error {
	a := s.do(protocol, request{method: http.MethodGet, path: "/files?username=root&path=" + file, sandbox: b})
	switch {
	case a.status == http.StatusOK && a.err != nil && len(a.body) < len(b.contents()) && strings.HasPrefix(b.contents(), string(a.body)):
		return told{isLost, "a download is cut, and looks cut: " + a.err.Error()}
	case a.status != http.StatusOK:
		return failure(a)
	case string(a.body) != b.contents():
		return fmt.Errorf("the file of another, or not all of it: %d bytes, %.80q", len(a.body), a.body)
	default:
		return a.err
	}
}

func (s *stage) upload(b sandbox, protocol int) error {
	a := s.do(protocol, request{method: http.MethodPost, path: "/files?username=root&path=" + file + "-up", body: b.contents(), sandbox: b})
	if a.status != http.StatusOK || !strings.Contains(string(a.body), file) {
		return failure(a)
	}
	return a.err
}

func (s *stage) info(b sandbox, protocol int) error {
	a := s.do(protocol, request{method: http.MethodGet, path: "/sandboxes/" + b.ID, key: true})
	if a.status == http.StatusNotFound {
		return told{isGone, string(a.body)}
	}
	if a.status != http.StatusOK || !strings.Contains(string(a.body), b.ID) {
		return failure(a)
	}
	return a.err
}

// list must have the sandbox of the call.
func (s *stage) list(b sandbox, protocol int) error {
	a := s.do(protocol, request{method: http.MethodGet, path: "/v2/sandboxes?limit=100", key: true})
	if a.status == http.StatusServiceUnavailable {
		return told{isLost, string(a.body)} // a list changes nothing, so that the truth is "nothing was done" here too
	}
	if a.status != http.StatusOK {
		return failure(a)
	}
	var all []sandbox
	if err := errors.Join(a.err, json.Unmarshal(a.body, &all)); err != nil {
		return fmt.Errorf("the list: %w", err)
	}
	for _, one := range all {
		if one.ID == b.ID {
			return nil
		}
	}
	return told{isGone, fmt.Sprintf("not in a list of %d", len(all))}
}

// life is that of a sandbox of its own: of the one it is given nothing is asked.
func (s *stage) life(_ sandbox, protocol int) error {
	s.changing.RLock()
	defer s.changing.RUnlock()
	b, err := s.create()
	if err == nil {
		err = s.stat(b, protocol)
	}
	if err == nil {
		err = s.end(b, protocol)
	} else if b.ID != "" {
		s.kill(b) // nobody else would
	}
	if err != nil {
		return fmt.Errorf("in a life: %w", ofAnother{b.ID, err})
	}
	return nil
}

// end kills a sandbox, of which nobody may be told anything else from then on.
func (s *stage) end(b sandbox, protocol int) error {
	over := s.troubles.begin(death, b.ID)
	defer over()
	if a := s.kill(b); a.status != http.StatusNoContent {
		return fmt.Errorf("the end of it: %w", failure(a))
	}
	var gone told
	if err := s.stat(b, protocol); !errors.As(err, &gone) || gone.cause != isGone {
		return fmt.Errorf("it was killed: %w", errors.Join(err, errors.New("not gone")))
	}
	return nil
}

func (s *stage) socket(b sandbox, _ int) error      { return s.talk(b, 5, false) }
func (s *stage) leaveSocket(b sandbox, _ int) error { return s.talk(b, 2, true) }

// command is one that says who it is, and ends.
func (s *stage) command(b sandbox, protocol int) error {
	ctx, cancel := limited()
	defer cancel()
	said, ended := "", false
	err := s.run(ctx, b, protocol, `cat /tmp/soak | head -n 1; sleep 0.05; echo over`, func(e *processpb.ProcessEvent) bool {
		said += string(e.GetData().GetStdout())
		ended = ended || e.GetEnd() != nil && e.GetEnd().GetExitCode() == 0
		return true
	})
	if err != nil {
		return err
	}
	if want := b.ID + "\nover\n"; said != want || !ended {
		return fmt.Errorf("a command said %q, not %q; its end was heard of: %t", said, want, ended)
	}
	return nil
}

// run runs a command and hands on its events until heard has enough.
func (s *stage) run(ctx context.Context, b sandbox, protocol int, line string, heard func(*processpb.ProcessEvent) bool) error {
	client := processpbconnect.NewProcessClient(s.clients[protocol], s.url, connect.WithProtoJSON())
	r := connect.NewRequest(&processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", line}}})
	b.address(r.Header(), envdPort)
	r.Header().Set("Keepalive-Ping-Interval", "50")
	stream, err := client.Start(ctx, r)
	if err != nil {
		return streamFailure(err)
	}
	for stream.Receive() {
		if !heard(stream.Msg().GetEvent()) {
			return nil
		}
	}
	err = stream.Err()
	stream.Close()
	if err != nil {
		return streamFailure(err)
	}
	return nil
}

// leaveCommand leaves as soon as the command runs.
func (s *stage) leaveCommand(b sandbox, protocol int) error {
	ctx, cancel := limited()
	defer cancel()
	return s.run(ctx, b, protocol, "sleep 1", func(*processpb.ProcessEvent) bool { return false })
}

func (s *stage) leaveDownload(b sandbox, protocol int) error {
	ctx, cancel := limited()
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/files?username=root&path="+file, nil)
	if err != nil {
		return err
	}
	b.address(r.Header, envdPort)
	resp, err := s.clients[protocol].Do(r)
	if err != nil {
		return failure(answer{err: err})
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		return failure(answer{resp.StatusCode, text, err})
	}
	part := make([]byte, 1000)
	if n, err := io.ReadFull(resp.Body, part); err != nil {
		return told{isLost, fmt.Sprintf("a download is cut after %d bytes: %v", n, err)}
	}
	if !strings.HasPrefix(b.contents(), string(part)) {
		return fmt.Errorf("the file of another: %.80q", part)
	}
	return nil
}

// leaveUpload promises a file and leaves in the middle of it.
func (s *stage) leaveUpload(b sandbox, protocol int) error {
	ctx, cancel := limited()
	defer cancel()
	half := io.MultiReader(strings.NewReader(b.contents()[:32<<10]), leaving(cancel))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/files?username=root&path="+file+"-left", half)
	if err != nil {
		return err
	}
	r.ContentLength = 64 << 10
	r.Header.Set("Content-Type", "application/octet-stream")
	b.address(r.Header, envdPort)
	resp, err := s.clients[protocol].Do(r)
	switch {
	case errors.Is(err, context.Canceled):
		return nil // it has left
	case err != nil:
		return failure(answer{err: err})
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return failure(answer{resp.StatusCode, text, err})
}

// leaving is the rest of a body whose client is gone.
type leaving context.CancelFunc

func (l leaving) Read([]byte) (int, error) {
	l()
	return 0, context.Canceled
}
