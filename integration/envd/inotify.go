package envd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/caddy-e2b/gateway/integration/envd/filesystempb"
)

const (
	// watchedInside is what we ask of every directory.
	watchedInside = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_ONLYDIR
	// watchedSelf comes on top for the directory the client named: nobody watches its parent.
	watchedSelf = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
)

// errOverflow ends a watch whose client let the kernel's queue run full: changes were lost.
var errOverflow = errors.New("too many changes at once, some were lost")

// change is one thing that happened under a watched directory. name is relative to it, "." for the directory itself.
type change struct {
	name string
	kind filesystempb.EventType
}

// dirWatcher reports changes in one directory of the machine, or in the whole tree below it, through inotify.
//
// changes is closed when the watch ended, by close or by itself; err then says why.
type dirWatcher struct {
	changes chan change

	// dir ends with a slash, so that it is followed when it is a link.
	dir       string
	recursive bool
	queue     *os.File
	fd        int
	// names maps inotify's watch descriptors to directories relative to dir.
	names map[int32]string
	// announced holds entries of fresh directories that we reported from a listing and inotify may report again.
	announced map[string]bool
	quit      chan struct{}
	once      sync.Once
	ended     chan struct{}
	err       error
}

// watchDirectory starts watching. The caller must close the result.
func watchDirectory(dir string, recursive bool) (*dirWatcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	w := &dirWatcher{
		changes:   make(chan change, 64),
		dir:       strings.TrimSuffix(dir, "/") + "/",
		recursive: recursive,
		queue:     os.NewFile(uintptr(fd), "inotify"),
		fd:        fd,
		names:     make(map[int32]string),
		announced: make(map[string]bool),
		quit:      make(chan struct{}),
		ended:     make(chan struct{}),
	}
	if err := w.add(".", watchedInside|watchedSelf); err != nil {
		_ = w.queue.Close()
		return nil, err
	}
	if recursive {
		if err := w.addBelow(".", nil); err != nil {
			_ = w.queue.Close()
			return nil, err
		}
	}
	go w.run()
	return w, nil
}

// close ends the watch and waits until nothing more will be sent.
func (w *dirWatcher) close() {
	w.once.Do(func() {
		close(w.quit)
		_ = w.queue.Close()
	})
	<-w.ended
}

func (w *dirWatcher) run() {
	defer close(w.ended)
	defer close(w.changes)
	buf := make([]byte, 64<<10)
	for {
		n, err := w.queue.Read(buf)
		if err != nil {
			w.err = err
			return
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			descriptor := int32(binary.NativeEndian.Uint32(rest[0:]))
			mask := binary.NativeEndian.Uint32(rest[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:end], "\x00"))
			rest = rest[end:]
			if mask&unix.IN_Q_OVERFLOW != 0 {
				w.err = errOverflow
				return
			}
			if !w.handle(descriptor, mask, name) {
				return
			}
		}
	}
}

// handle reports one inotify event; false when the watch is being closed.
func (w *dirWatcher) handle(descriptor int32, mask uint32, name string) bool {
	in, known := w.names[descriptor]
	if !known {
		return true // a directory that we have let go
	}
	if mask&unix.IN_IGNORED != 0 {
		delete(w.names, descriptor)
		return true
	}
	if name == "" && in != "." {
		return true // its parent reports the same
	}
	at := path.Join(in, name)
	if w.recursive && mask&unix.IN_ISDIR != 0 && mask&unix.IN_MOVED_FROM != 0 {
		w.forget(at)
	}
	if mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0 {
		delete(w.announced, at)
	}
	// Watched before it is told of, so that whoever is told of it is told of what he does in it. Files may have been made in it
	// before that: list them. A directory that is gone already is no error.
	var found []string
	if w.recursive && mask&unix.IN_ISDIR != 0 && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 {
		_ = w.add(at, watchedInside)
		_ = w.addBelow(at, &found)
	}
	if mask&unix.IN_CREATE == 0 || !w.announced[at] {
		if !w.send(change{at, kindOf(mask)}) {
			return false
		}
	}
	delete(w.announced, at)
	if mask&unix.IN_MOVED_TO != 0 {
		return true
	}
	for _, entry := range found {
		w.announced[entry] = true
		if !w.send(change{entry, filesystempb.EventType_EVENT_TYPE_CREATE}) {
			return false
		}
	}
	return true
}

func (w *dirWatcher) send(c change) bool {
	if c.kind == filesystempb.EventType_EVENT_TYPE_UNSPECIFIED {
		return true
	}
	select {
	case w.changes <- c:
		return true
	case <-w.quit:
		return false
	}
}

// kindOf names what happened; moving away is a rename, moving in is a creation.
func kindOf(mask uint32) filesystempb.EventType {
	switch {
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		return filesystempb.EventType_EVENT_TYPE_CREATE
	case mask&(unix.IN_MOVED_FROM|unix.IN_MOVE_SELF) != 0:
		return filesystempb.EventType_EVENT_TYPE_RENAME
	case mask&unix.IN_MODIFY != 0:
		return filesystempb.EventType_EVENT_TYPE_WRITE
	case mask&(unix.IN_DELETE|unix.IN_DELETE_SELF) != 0:
		return filesystempb.EventType_EVENT_TYPE_REMOVE
	case mask&unix.IN_ATTRIB != 0:
		return filesystempb.EventType_EVENT_TYPE_CHMOD
	}
	return filesystempb.EventType_EVENT_TYPE_UNSPECIFIED
}

// add watches one directory, relative to dir.
func (w *dirWatcher) add(rel string, mask uint32) error {
	descriptor, err := unix.InotifyAddWatch(w.fd, w.dir+rel, mask)
	if err != nil {
		return fmt.Errorf("watch %s: %w", rel, err)
	}
	w.names[int32(descriptor)] = rel
	return nil
}

// addBelow watches every directory below rel and appends everything it saw there to found.
func (w *dirWatcher) addBelow(rel string, found *[]string) error {
	top := w.dir + rel
	return filepath.WalkDir(top, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || at == top {
			return nil
		}
		if err != nil {
			return err
		}
		inside := strings.TrimPrefix(at, w.dir)
		if found != nil {
			*found = append(*found, inside)
		}
		if !d.IsDir() {
			return nil
		}
		if err := w.add(inside, watchedInside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// forget stops watching a directory that was moved away, and everything below it.
func (w *dirWatcher) forget(rel string) {
	for descriptor, name := range w.names {
		if name == rel || strings.HasPrefix(name, rel+"/") {
			_, _ = unix.InotifyRmWatch(w.fd, uint32(descriptor))
			delete(w.names, descriptor)
		}
	}
}
