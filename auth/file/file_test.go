package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-e2b/gateway/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is what the store told its operator.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) errors() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "level=ERROR")
}

func list(names ...string) string {
	var records []string
	for _, name := range names {
		records = append(records, fmt.Sprintf(`{"digest":%q,"subject":%q}`, auth.DigestOf(name), name))
	}
	return `{"keys": [` + strings.Join(records, ",") + `]}`
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// following runs a test with a store of a file that lists alice, in synctest's
// time. Files are real.
func following(t *testing.T, test func(t *testing.T, path string, s *Store, l *log)) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "keys.json")
		write(t, path, list("alice"))
		l := new(log)
		s, err := New(path, slog.New(slog.NewTextHandler(l, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		test(t, path, s, l)
	})
}

func knows(t *testing.T, s *Store, name string) bool {
	t.Helper()
	key, err := s.Lookup(context.Background(), auth.DigestOf(name))
	if err != nil && !errors.Is(err, auth.ErrUnknownKey) {
		t.Fatal(err)
	}
	return err == nil && key.Subject == name
}

// second is how long a change may take to count.
const second = time.Second - time.Millisecond

func TestAChangeCountsWithinASecond(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		"written over": func(t *testing.T, path string) { write(t, path, list("bob")) },
		"moved over": func(t *testing.T, path string) {
			write(t, path+".new", list("bob"))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		},
		"made again": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			write(t, path, list("bob"))
		},
		"through a link": func(t *testing.T, path string) {
			write(t, path+".new", list("bob"))
			if err := errors.Join(os.Remove(path), os.Symlink(path+".new", path)); err != nil {
				t.Fatal(err)
			}
		},
		"of the same length and time": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, list("bob")+"    "[:len(list("alice"))-len(list("bob"))])
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			following(t, func(t *testing.T, path string, s *Store, l *log) {
				time.Sleep(10 * time.Millisecond)
				change(t, path)
				time.Sleep(second)
				if knows(t, s, "alice") || !knows(t, s, "bob") {
					t.Errorf("knows alice: %v, bob: %v", knows(t, s, "alice"), knows(t, s, "bob"))
				}
				if n := l.errors(); n > 0 {
					t.Errorf("%d errors in the log", n)
				}
			})
		})
	}
}

func TestAFileThatBreaksKeepsTheKeysAndIsToldOnce(t *testing.T) {
	for name, breaks := range map[string]func(path string) error{
		"cut short": func(path string) error { return os.WriteFile(path, []byte(list("bob")[:20]), 0o600) },
		"empty":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a raw key": func(path string) error {
			return os.WriteFile(path, []byte(`{"keys":[{"digest":"e2b_canary","subject":"bob"}]}`), 0o600)
		},
		"no list":   func(path string) error { return os.WriteFile(path, []byte(`{}`), 0o600) },
		"deleted":   os.Remove,
		"too long":  func(path string) error { return os.Truncate(path, maxSize+1) },
		"directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			following(t, func(t *testing.T, path string, s *Store, l *log) {
				if err := breaks(path); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				if !knows(t, s, "alice") {
					t.Error("alice is not known any more")
				}
				if n := l.errors(); n != 1 {
					t.Errorf("%d errors in the log: %s", n, l.text.String())
				}
				if strings.Contains(l.text.String(), "canary") {
					t.Error("the log holds the key")
				}
				_ = os.Remove(path)
				write(t, path, list("bob"))
				time.Sleep(second)
				if knows(t, s, "alice") || !knows(t, s, "bob") {
					t.Error("the mended file was not read")
				}
			})
		})
	}
}

func TestAFileThatIsBeingWrittenIsNoError(t *testing.T) {
	following(t, func(t *testing.T, path string, s *Store, l *log) {
		write(t, path, list("bob")[:20])
		time.Sleep(pollInterval)
		synctest.Wait()
		write(t, path, list("bob"))
		time.Sleep(second)
		if !knows(t, s, "bob") || l.errors() > 0 {
			t.Errorf("knows bob: %v, errors: %d", knows(t, s, "bob"), l.errors())
		}
	})
}

func TestAnEmptyListLetsNobodyIn(t *testing.T) {
	following(t, func(t *testing.T, path string, s *Store, l *log) {
		write(t, path, list())
		time.Sleep(second)
		if knows(t, s, "alice") {
			t.Error("alice is still known")
		}
	})
}

func TestAGatewayDoesNotStartWithAFileThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	if _, err := New(path, slog.Default()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	write(t, path, `{"keys": [{"digest": "12", "subject": "alice"}]}`)
	if _, err := New(path, slog.Default()); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "alice") {
		t.Errorf("malformed: %v", err)
	}
}

// FuzzParseFile: whatever is in the file, reading it ends, and no error quotes a
// key.
func FuzzParseFile(f *testing.F) {
	f.Add([]byte(list("alice", "bob")))
	f.Add([]byte(`{"keys":null}`))
	f.Add([]byte(`{"keys":[{"digest":"e2b_0a"}],"Keys":[]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		table, err := Parse(content)
		if err != nil && strings.Contains(err.Error(), "e2b_") {
			t.Errorf("%v", err)
		}
		for digest, key := range table {
			if key.Digest != digest || !auth.ValidSubject(key.Subject) || key.Scopes == 0 {
				t.Errorf("%v: %+v", digest, key)
			}
		}
	})
}

func TestOnlyARegularFileIsRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir} {
		if s, err := New(path, slog.New(slog.DiscardHandler)); err == nil {
			s.Close()
			t.Errorf("%s was read", path)
		}
	}
}
