package envd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/filesystempb"
)

// WatchDir streams changes until the client leaves or its deadline passes. Every change restarts the keepalive interval.
func (s *filesystemService) WatchDir(ctx context.Context, req *connect.Request[filesystempb.WatchDirRequest], stream *connect.ServerStream[filesystempb.WatchDirResponse]) error {
	p, w, err := s.watch(req.Msg.GetPath(), req.Msg.GetRecursive())
	if err != nil {
		return err
	}
	defer w.close()
	start := &filesystempb.WatchDirResponse{Event: &filesystempb.WatchDirResponse_Start{Start: &filesystempb.WatchDirResponse_StartEvent{}}}
	if err := stream.Send(start); err != nil {
		return err
	}
	interval := keepaliveInterval(req.Header())
	keepalive := time.NewTicker(interval)
	defer keepalive.Stop()
	for {
		resp := &filesystempb.WatchDirResponse{}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing.Done():
			panic(http.ErrAbortHandler)
		case <-keepalive.C:
			resp.Event = &filesystempb.WatchDirResponse_Keepalive{Keepalive: &filesystempb.WatchDirResponse_KeepAlive{}}
		case c, ok := <-w.changes:
			if !ok {
				return connect.NewError(connect.CodeInternal, fmt.Errorf("watcher error: %w", w.err))
			}
			keepalive.Reset(interval)
			resp.Event = &filesystempb.WatchDirResponse_Filesystem{Filesystem: s.event(p, c, req.Msg.GetIncludeEntry())}
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

// keptWatcher collects changes for a client that polls.
type keptWatcher struct {
	watcher *dirWatcher
	// ended is closed when the collector has returned.
	ended chan struct{}

	mu     sync.Mutex
	events []*filesystempb.FilesystemEvent
	err    error
}

// CreateWatcher starts a watch that lives until RemoveWatcher, whatever happens to the connection.
func (s *filesystemService) CreateWatcher(_ context.Context, req *connect.Request[filesystempb.CreateWatcherRequest]) (*connect.Response[filesystempb.CreateWatcherResponse], error) {
	p, w, err := s.watch(req.Msg.GetPath(), req.Msg.GetRecursive())
	if err != nil {
		return nil, err
	}
	kept := &keptWatcher{watcher: w, ended: make(chan struct{})}
	id := "w" + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		w.close()
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("closing"))
	}
	s.watchers[id] = kept
	go func() {
		defer close(kept.ended)
		for c := range w.changes {
			event := s.event(p, c, req.Msg.GetIncludeEntry())
			kept.mu.Lock()
			kept.events = append(kept.events, event)
			kept.mu.Unlock()
		}
		kept.mu.Lock()
		kept.err = w.err
		kept.mu.Unlock()
	}()
	return connect.NewResponse(&filesystempb.CreateWatcherResponse{WatcherId: id}), nil
}

// GetWatcherEvents drains what a watcher has kept.
func (s *filesystemService) GetWatcherEvents(_ context.Context, req *connect.Request[filesystempb.GetWatcherEventsRequest]) (*connect.Response[filesystempb.GetWatcherEventsResponse], error) {
	id := req.Msg.GetWatcherId()
	s.mu.Lock()
	kept := s.watchers[id]
	s.mu.Unlock()
	if kept == nil {
		return nil, unknownWatcher(id)
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.err != nil {
		return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("watcher error: %w", kept.err))
	}
	events := kept.events
	kept.events = nil
	return connect.NewResponse(&filesystempb.GetWatcherEventsResponse{Events: events}), nil
}

// RemoveWatcher ends a watch.
func (s *filesystemService) RemoveWatcher(_ context.Context, req *connect.Request[filesystempb.RemoveWatcherRequest]) (*connect.Response[filesystempb.RemoveWatcherResponse], error) {
	id := req.Msg.GetWatcherId()
	s.mu.Lock()
	kept := s.watchers[id]
	delete(s.watchers, id)
	s.mu.Unlock()
	if kept == nil {
		return nil, unknownWatcher(id)
	}
	kept.close()
	return connect.NewResponse(&filesystempb.RemoveWatcherResponse{}), nil
}

func (k *keptWatcher) close() {
	k.watcher.close()
	<-k.ended
}

// close ends all kept watchers; closing must be done already.
func (s *filesystemService) close() {
	s.mu.Lock()
	watchers := s.watchers
	s.watchers = nil
	s.mu.Unlock()
	for _, kept := range watchers {
		kept.close()
	}
}

// watch starts watching what a client named and gives its sandbox path too.
func (s *filesystemService) watch(requested string, recursive bool) (string, *dirWatcher, error) {
	p, err := s.path(requested)
	if err != nil {
		return "", nil, err
	}
	host, err := s.directory(p)
	if err != nil {
		return "", nil, err
	}
	w, err := watchDirectory(host, recursive)
	if err != nil {
		return "", nil, connect.NewError(connect.CodeInternal, fmt.Errorf("error adding path %s to watcher: %w", p, err))
	}
	return p, w, nil
}

// event renders a change under the watched sandbox path.
func (s *filesystemService) event(watched string, c change, includeEntry bool) *filesystempb.FilesystemEvent {
	event := &filesystempb.FilesystemEvent{Name: c.name, Type: c.kind}
	if includeEntry {
		// A change is reported after the fact: the file may be gone, and then there is no entry.
		event.Entry, _ = s.tree.entry(path.Join(watched, c.name))
	}
	return event
}

func unknownWatcher(id string) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("watcher with id %s not found", id))
}
