package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"
)

// trouble is a kind of thing that goes wrong. A call may only be told of what was wrong while it ran.
type trouble string

const (
	// death is that of one sandbox; all others are to feel nothing.
	death  trouble = "a sandbox dies"
	cut    trouble = "ROCK's proxy role resets all calls"
	outage trouble = "Redis is killed and comes back"
	// reloading is one only where the kernel does not do as the README asks: it resets connections that are being opened.
	reloading trouble = "the gateway's config is reloaded"
	hanging   trouble = "Redis hangs"
)

// troubles are what was wrong, and when.
type troubles struct {
	mu  sync.Mutex
	all []*spell
}

type spell struct {
	trouble
	sandbox  string // of a death
	from, to time.Time
}

// begin notes trouble before it is made. over is called when nothing of it is left.
func (w *troubles) begin(what trouble, sandbox string) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := &spell{trouble: what, sandbox: sandbox, from: time.Now()}
	// Calls do not outlive their limit: nobody asks about older ones.
	w.all = slices.DeleteFunc(w.all, func(s *spell) bool {
		return s.sandbox == "" && !s.to.IsZero() && now.from.Sub(s.to) > 2*longest
	})
	w.all = append(w.all, now)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		now.to = time.Now()
	}
}

// during are the troubles that a call on a sandbox can have met that began then and ends now. Dead sandboxes stay dead.
func (w *troubles) during(sandbox string, from time.Time) (met []trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.all {
		if s.sandbox != "" && s.sandbox == sandbox || s.sandbox == "" && (s.to.IsZero() || s.to.After(from)) {
			met = append(met, s.trouble)
		}
	}
	return met
}

// cause is why a call says that it failed.
type cause string

const (
	isGone     cause = "gone"
	isLost     cause = "lost"
	isRegistry cause = "registry"
)

// excuses are the troubles that make a cause true.
var excuses = map[cause][]trouble{
	isGone:     {death},
	isLost:     {death, cut},
	isRegistry: {outage, hanging},
}

// told is an error that the gateway has told in the words of the protocol.
type told struct {
	cause
	text string
}

func (e told) Error() string { return string(e.cause) + ": " + e.text }

// longest is how long a call may take: whatever happens, its client knows by then.
const longest = 60 * time.Second

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), longest)
}

// failure reads an answer that is not what was asked for.
func failure(a answer) error {
	if a.err != nil {
		return fmt.Errorf("no answer, or a part of one: %w", a.err)
	}
	var said struct {
		Code    any    `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(a.body, &said) != nil || said.Code == nil || said.Message == "" {
		return fmt.Errorf("not an error of the protocol: %v", a)
	}
	switch {
	case a.status == http.StatusBadGateway: // whatever the words: SDKs take it for the end of the sandbox
		return told{isGone, said.Message}
	case a.status == http.StatusServiceUnavailable:
		return told{isRegistry, said.Message}
	case a.status == http.StatusInternalServerError:
		return told{isLost, said.Message}
	default:
		return fmt.Errorf("%d: %s", a.status, a.body)
	}
}

// streamFailure reads the error that a stream of the Connect protocol has ended with.
func streamFailure(err error) error {
	var e *connect.Error
	if !errors.As(err, &e) || !connect.IsWireError(err) {
		return fmt.Errorf("a stream did not end in its protocol: %w", err)
	}
	switch text := e.Message(); {
	case e.Code() == connect.CodeUnavailable:
		return told{isGone, text}
	case e.Code() == connect.CodeAborted && strings.Contains(text, "cannot find out where"):
		return told{isRegistry, text}
	case e.Code() == connect.CodeAborted:
		return told{isLost, text}
	default:
		return fmt.Errorf("a stream ended with %w", err)
	}
}

// ofAnother is an error of a call on a sandbox that is not the one it was told to use.
type ofAnother struct {
	sandbox string
	error
}

func (e ofAnother) Unwrap() error { return e.error }

// judge returns nil for an error that was true of the sandbox at some time since then, and else what is wrong with it.
func (w *troubles) judge(err error, sandbox string, since time.Time) error {
	var another ofAnother
	if errors.As(err, &another) {
		sandbox = another.sandbox
	}
	met := w.during(sandbox, since)
	var e told
	if errors.As(err, &e) {
		for _, t := range excuses[e.cause] {
			if slices.Contains(met, t) {
				return nil
			}
		}
	}
	if errors.Is(err, syscall.ECONNRESET) && slices.Contains(met, reloading) {
		return nil
	}
	return fmt.Errorf("sandbox %s, while %q, after %v: %w", sandbox, met, time.Since(since).Round(time.Millisecond), err)
}
