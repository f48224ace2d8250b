package envd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/filesystempb"
)

// told renders an event as "name kind".
func told(e *filesystempb.FilesystemEvent) string {
	return e.GetName() + " " + map[filesystempb.EventType]string{
		filesystempb.EventType_EVENT_TYPE_CREATE: "create",
		filesystempb.EventType_EVENT_TYPE_WRITE:  "write",
		filesystempb.EventType_EVENT_TYPE_REMOVE: "remove",
		filesystempb.EventType_EVENT_TYPE_RENAME: "rename",
		filesystempb.EventType_EVENT_TYPE_CHMOD:  "chmod",
	}[e.GetType()]
}

// watched is a directory of the sandbox, /home/user/w, that the test changes directly.
type watched struct {
	t   *testing.T
	dir string
}

func (s *sandbox) watched(t *testing.T) watched {
	t.Helper()
	s.put(t, "/home/user/w/old", "x")
	dir, err := s.handler.tree.hostFollowed("/home/user/w")
	if err != nil {
		t.Fatal(err)
	}
	return watched{t, dir}
}

func (w watched) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w watched) write(name string) {
	w.t.Helper()
	w.must(os.WriteFile(filepath.Join(w.dir, name), []byte("x"), 0o600))
}

// watchStream is an open WatchDir.
type watchStream struct {
	t      *testing.T
	stream *connect.ServerStreamForClient[filesystempb.WatchDirResponse]
	events []*filesystempb.FilesystemEvent
}

func (s *sandbox) watchDir(t *testing.T, req *connect.Request[filesystempb.WatchDirRequest]) *watchStream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := s.files.WatchDir(ctx, req)
	if err != nil {
		cancel()
		t.Fatalf("WatchDir: %v", err)
	}
	inTime(t, cancel, stream)
	if !stream.Receive() || stream.Msg().GetStart() == nil {
		t.Fatalf("first message is %v (%v), want start", stream.Msg(), stream.Err())
	}
	return &watchStream{t: t, stream: stream}
}

// until reads events up to and with the one told as last, and gives all of them.
func (w *watchStream) until(last string) []string {
	w.t.Helper()
	var all []string
	for w.stream.Receive() {
		if e := w.stream.Msg().GetFilesystem(); e != nil {
			w.events = append(w.events, e)
			all = append(all, told(e))
			if told(e) == last {
				return all
			}
		}
	}
	w.t.Fatalf("stream ended (%v) before %q; events %q", w.stream.Err(), last, all)
	return nil
}

func TestChangesAreStreamed(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		w := s.watched(t)
		stream := s.watchDir(t, connect.NewRequest(&filesystempb.WatchDirRequest{Path: "w"}))
		w.write("f")
		w.must(os.Chmod(filepath.Join(w.dir, "f"), 0o644))
		w.must(os.Rename(filepath.Join(w.dir, "f"), filepath.Join(w.dir, "g")))
		w.must(os.Mkdir(filepath.Join(w.dir, "sub"), 0o755))
		w.write("sub/unseen")
		w.must(os.Remove(filepath.Join(w.dir, "g")))
		got := stream.until("g remove")
		want := []string{"f create", "f write", "f chmod", "f rename", "g create", "sub create", "g remove"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		for _, e := range stream.events {
			if e.Entry != nil {
				t.Errorf("%s carries an entry nobody asked for", told(e))
			}
		}
	})
}

func TestRecursiveWatchesSeeTheWholeTree(t *testing.T) {
	s := open(t, Options{})
	w := s.watched(t)
	s.put(t, "/home/user/w/was/here/before", "x")
	stream := s.watchDir(t, connect.NewRequest(&filesystempb.WatchDirRequest{Path: "w", Recursive: true}))
	w.write("was/here/f")
	stream.until("was/here/f create")

	// Made at once: the deepest directory may exist before any watch can be set on its parent.
	w.must(os.MkdirAll(filepath.Join(w.dir, "a/b/c"), 0o755))
	if got := stream.until("a/b/c create"); !slices.Contains(got, "a create") || !slices.Contains(got, "a/b create") {
		t.Errorf("events %q", got)
	}
	w.write("a/b/c/f")
	stream.until("a/b/c/f create")

	// A moved directory is watched under its new name only.
	w.must(os.Rename(filepath.Join(w.dir, "a"), filepath.Join(w.dir, "z")))
	stream.until("z create")
	w.write("z/b/g")
	if got := stream.until("z/b/g create"); slices.ContainsFunc(got, func(e string) bool { return e == "a/b/g create" }) {
		t.Errorf("events %q", got)
	}
	w.must(os.RemoveAll(filepath.Join(w.dir, "z")))
	stream.until("z remove")
}

func TestADirectoryThatMovedOutIsNoLongerWatched(t *testing.T) {
	s := open(t, Options{})
	w := s.watched(t)
	s.put(t, "/home/user/w/d/f", "x")
	stream := s.watchDir(t, connect.NewRequest(&filesystempb.WatchDirRequest{Path: "w", Recursive: true}))
	outside := filepath.Join(filepath.Dir(w.dir), "outside")
	w.must(os.Rename(filepath.Join(w.dir, "d"), outside))
	stream.until("d rename")
	w.must(os.WriteFile(filepath.Join(outside, "f"), []byte("y"), 0o600))
	w.write("last")
	if got := stream.until("last create"); !slices.Equal(got, []string{"last create"}) {
		t.Errorf("events %q", got)
	}
}

func TestEventsCarryTheEntryWhenAsked(t *testing.T) {
	s := open(t, Options{})
	w := s.watched(t)
	stream := s.watchDir(t, connect.NewRequest(&filesystempb.WatchDirRequest{Path: "w", IncludeEntry: true}))
	w.write("f")
	stream.until("f create")
	if e := stream.events[0].GetEntry(); e.GetPath() != "/home/user/w/f" || e.GetType() != filesystempb.FileType_FILE_TYPE_FILE {
		t.Errorf("entry %v", e)
	}
	w.must(os.Remove(filepath.Join(w.dir, "f")))
	stream.until("f remove")
	if e := stream.events[len(stream.events)-1]; e.Entry != nil {
		t.Errorf("a removed file has the entry %v", e.GetEntry())
	}
}

func TestAQuietWatchSaysThatItLives(t *testing.T) {
	s := open(t, Options{})
	s.watched(t)
	req := connect.NewRequest(&filesystempb.WatchDirRequest{Path: "w"})
	req.Header().Set("Keepalive-Ping-Interval", "0.02")
	stream := s.watchDir(t, req).stream
	if !stream.Receive() || stream.Msg().GetKeepalive() == nil {
		t.Errorf("got %v (%v), want keepalive", stream.Msg(), stream.Err())
	}
}

func TestTheDeadlineEndsAWatch(t *testing.T) {
	s := open(t, Options{})
	s.watched(t)
	req := connect.NewRequest(&filesystempb.WatchDirRequest{Path: "w"})
	req.Header().Set("Connect-Timeout-Ms", "50")
	stream := s.watchDir(t, req).stream
	for stream.Receive() {
	}
	wantCode(t, stream.Err(), connect.CodeDeadlineExceeded)
}

func TestCloseCutsWatches(t *testing.T) {
	s := open(t, Options{})
	s.watched(t)
	stream := s.watchDir(t, connect.NewRequest(&filesystempb.WatchDirRequest{Path: "w"})).stream
	if err := s.handler.Close(); err != nil {
		t.Fatal(err)
	}
	if stream.Receive() || stream.Err() == nil {
		t.Errorf("got %v, %v", stream.Msg(), stream.Err())
	}
}

func TestPolledWatchersKeepEventsUntilFetched(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		w := s.watched(t)
		created, err := s.files.CreateWatcher(t.Context(), connect.NewRequest(&filesystempb.CreateWatcherRequest{Path: "w", Recursive: true}))
		if err != nil {
			t.Fatal(err)
		}
		id := created.Msg.GetWatcherId()
		var got []string
		fetch := func() {
			resp, err := s.files.GetWatcherEvents(t.Context(), connect.NewRequest(&filesystempb.GetWatcherEventsRequest{WatcherId: id}))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range resp.Msg.GetEvents() {
				got = append(got, told(e))
			}
		}
		w.write("f")
		eventually(t, "both events", func() bool { fetch(); return len(got) >= 2 })
		if !slices.Equal(got, []string{"f create", "f write"}) {
			t.Errorf("events %q", got)
		}
		got = nil
		w.must(os.Remove(filepath.Join(w.dir, "f")))
		eventually(t, "the removal", func() bool { fetch(); return len(got) > 0 })
		if !slices.Equal(got, []string{"f remove"}) {
			t.Errorf("fetched again: %q", got)
		}
		if _, err := s.files.RemoveWatcher(t.Context(), connect.NewRequest(&filesystempb.RemoveWatcherRequest{WatcherId: id})); err != nil {
			t.Fatal(err)
		}
		_, err = s.files.GetWatcherEvents(t.Context(), connect.NewRequest(&filesystempb.GetWatcherEventsRequest{WatcherId: id}))
		wantCode(t, err, connect.CodeNotFound)
		_, err = s.files.RemoveWatcher(t.Context(), connect.NewRequest(&filesystempb.RemoveWatcherRequest{WatcherId: id}))
		wantCode(t, err, connect.CodeNotFound)
	})
}

func TestOnlyDirectoriesAreWatched(t *testing.T) {
	s := open(t, Options{})
	s.watched(t)
	_, err := s.files.CreateWatcher(t.Context(), connect.NewRequest(&filesystempb.CreateWatcherRequest{Path: "w/old"}))
	wantCode(t, err, connect.CodeInvalidArgument)
}
