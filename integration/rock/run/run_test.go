package run

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a box in the given mode; a machine that does not permit the mode passes with a log line, because the modes are what the
// machine offers and Open's fallback is tested on its own.
func openBox(t *testing.T, mode Isolation) *Box {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	b, err := Open(Options{Root: root, Isolation: mode, Env: map[string]string{"FROM": "box", "OVER": "box"}})
	if err != nil {
		t.Logf("this machine does not permit %s: %v", mode, err)
		return nil
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := Remove(root); err != nil {
			t.Error(err)
		}
	})
	return b
}

func eachMode(t *testing.T, f func(t *testing.T, b *Box)) {
	for _, mode := range []Isolation{Namespace, UserNamespace, None} {
		t.Run(string(mode), func(t *testing.T) {
			if b := openBox(t, mode); b != nil {
				f(t, b)
			}
		})
	}
}

func bash(t *testing.T, b *Box, c Command, script string) (string, string, Exit) {
	t.Helper()
	c.Args = []string{"-l", "-c", script}
	p, err := b.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	errs := make(chan string, 1)
	go func() {
		e, _ := io.ReadAll(p.Stderr())
		errs <- string(e)
	}()
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	return string(out), <-errs, p.Wait()
}

func TestCommandSeesOutputsExitCodeAndMergedEnvironment(t *testing.T) {
	t.Setenv("HOST_SECRET", "leaked")
	eachMode(t, func(t *testing.T, b *Box) {
		out, errs, exit := bash(t, b, Command{Env: map[string]string{"OVER": "command"}}, `echo "$FROM:$OVER:$HOST_SECRET"; echo bad >&2; exit 3`)
		if out != "box:command:\n" || errs != "bad\n" || exit != (Exit{Code: 3}) || exit.String() != "exit status 3" {
			t.Fatalf("got %q %q %+v", out, errs, exit)
		}
	})
}

func TestRelativePathsAndHomeMeanTheSameToFilesAndCommands(t *testing.T) {
	eachMode(t, func(t *testing.T, b *Box) {
		at, err := b.Resolve("f")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at.Host, []byte("hi"), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, errs, _ := bash(t, b, Command{}, `cat f "$HOME/f" ~/f`); out != "hihihi" {
			t.Fatalf("got %q %q", out, errs)
		}
	})
}

func TestAbsolutePathsMeanTheSameToFilesAndIsolatedCommands(t *testing.T) {
	eachMode(t, func(t *testing.T, b *Box) {
		if b.Isolation() == None {
			return // the documented limit of this mode
		}
		at, err := b.Resolve("/tmp/x/hello.txt")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(at.Host), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at.Host, []byte("hello"), 0o644); err != nil {
			t.Fatal(err)
		}
		out, errs, _ := bash(t, b, Command{Dir: "/tmp/x"}, `pwd; cat /tmp/x/hello.txt; mkdir -p /data && echo back > /data/made; ls -A /home`)
		if out != "/tmp/x\nhellouser\n" {
			t.Fatalf("got %q %q", out, errs)
		}
		if back, err := os.ReadFile(b.Root() + "/data/made"); err != nil || string(back) != "back\n" {
			t.Fatalf("got %q %v", back, err)
		}
		if _, err := os.Stat("/data/made"); err == nil {
			t.Fatal("the command wrote to the host's root")
		}
	})
}

func TestIsolatedCommandCannotChangeTheHostsSystemDirectories(t *testing.T) {
	b := openBox(t, Namespace)
	if b == nil {
		return
	}
	name := "/etc/e2b-rock-double-" + filepath.Base(filepath.Dir(b.Root()))
	if out, _, exit := bash(t, b, Command{}, `touch `+name+` && echo wrote`); out != "" || exit.Code == 0 {
		t.Fatalf("got %q %v", out, exit)
	}
	if at, err := b.Resolve("/etc/passwd"); err != nil {
		t.Fatal(err)
	} else if _, err := os.Stat(at.Host); err != nil {
		t.Fatalf("the file API must see what commands see: %v", err)
	}
}

func TestBadWorkingDirectoryIsADirError(t *testing.T) {
	eachMode(t, func(t *testing.T, b *Box) {
		for _, dir := range []string{"/nowhere", "/home/user/file"} {
			_ = os.WriteFile(b.Root()+"/home/user/file", nil, 0o644)
			_, err := b.Start(Command{Dir: dir})
			var de *DirError
			if !errors.As(err, &de) || de.Dir != dir || strings.Contains(err.Error(), b.Root()) {
				t.Fatalf("%s: got %v", dir, err)
			}
		}
	})
}

func TestMissingProgramIsAnError(t *testing.T) {
	b := openBox(t, None)
	if _, err := b.Start(Command{Path: "/no/such/program"}); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
	p, err := b.Start(Command{Path: "true"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if exit := p.Wait(); exit.Code != 0 {
		t.Fatalf("a bare name is looked up: got %v", exit)
	}
}

func TestKillEndsTheWholeProcessGroup(t *testing.T) {
	eachMode(t, func(t *testing.T, b *Box) {
		p, err := b.Start(Command{Args: []string{"-c", "sleep 1000 & echo up; wait"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		buf := make([]byte, 8)
		if _, err := p.Stdout().Read(buf); err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(p.Stdout()); err != nil { // ends only when the child sleep is gone too
			t.Fatal(err)
		}
		if exit := p.Wait(); exit.Signal != syscall.SIGKILL || exit.String() != "signal: killed" {
			t.Fatalf("got %v", exit)
		}
	})
}

func TestCloseKillsWhatOutlivedItsCommandOrLeftItsGroup(t *testing.T) {
	for _, script := range []string{"sleep 1000 >/dev/null 2>&1 & echo $!", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"} {
		eachMode(t, func(t *testing.T, b *Box) {
			out, _, exit := bash(t, b, Command{}, script)
			if exit.Code != 0 {
				t.Fatalf("got %v", exit)
			}
			stat := "/proc/" + strings.TrimSpace(out) + "/stat"
			if _, err := os.ReadFile(stat); err != nil {
				t.Fatalf("%s did not outlive its command: %v", script, err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			dead := func() bool { s, err := os.ReadFile(stat); return err != nil || strings.Contains(string(s), ") Z ") }
			for deadline := time.Now().Add(5 * time.Second); !dead(); {
				if time.Now().After(deadline) {
					t.Fatalf("%s is still running", script)
				}
			}
			if _, err := b.Start(Command{}); !errors.Is(err, ErrClosed) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestStdinReachesTheCommand(t *testing.T) {
	eachMode(t, func(t *testing.T, b *Box) {
		p, err := b.Start(Command{Path: "/bin/cat", Stdin: true})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := p.Stdin().WriteString("typed"); err != nil {
			t.Fatal(err)
		}
		if err := p.Stdin().Close(); err != nil {
			t.Fatal(err)
		}
		if out, err := io.ReadAll(p.Stdout()); string(out) != "typed" || err != nil {
			t.Fatalf("got %q %v", out, err)
		}
	})
}

func TestTerminalHasSizeAndResizes(t *testing.T) {
	eachMode(t, func(t *testing.T, b *Box) {
		p, err := b.Start(Command{Args: []string{"-c", "stty size; read x; stty size"}, Terminal: &Size{Cols: 80, Rows: 24}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var got strings.Builder
		buf := make([]byte, 100)
		for !strings.Contains(got.String(), "24 80") {
			n, err := p.Terminal().Read(buf)
			if err != nil {
				t.Fatalf("%q %v", got.String(), err)
			}
			got.Write(buf[:n])
		}
		if err := p.Resize(Size{Cols: 132, Rows: 50}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Terminal().WriteString("\n"); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := p.Terminal().Read(buf)
			got.Write(buf[:n])
			if err != nil {
				if !errors.Is(err, syscall.EIO) {
					t.Fatal(err)
				}
				break
			}
		}
		if !strings.Contains(got.String(), "50 132") {
			t.Fatalf("got %q", got.String())
		}
	})
}

func TestLinksResolveInsideTheRoot(t *testing.T) {
	b := openBox(t, None)
	home := b.Root() + Home
	for link, target := range map[string]string{
		"abs": "/tmp", "up": "../../../../../etc", "self": "self", "chain": "abs/x",
	} {
		if err := os.Symlink(target, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	for p, want := range map[string]string{
		"abs/f": "/tmp/f", "up/passwd": "/etc/passwd", "chain": "/tmp/x", "~/abs/..": "/home/user",
		"/": "/", "../../../..": "/", "/../a": "/a", "~": Home, "missing/../../x": "/home/x",
	} {
		at, err := b.Resolve(p)
		if err != nil || at.Sandbox != want || at.Host != b.Root()+want {
			t.Errorf("%s: got %+v %v, want %s", p, at, err, want)
		}
	}
	if at, err := b.ResolveLink("abs"); err != nil || at.Sandbox != Home+"/abs" {
		t.Errorf("got %+v %v", at, err)
	}
	if _, err := b.Resolve("self"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("got %v", err)
	}
}

func TestOpenRefusesTheHostsRootAndRelativeRoots(t *testing.T) {
	for _, root := range []string{"/", "rel", "", "/tmp/.."} {
		if b, err := Open(Options{Root: root}); err == nil {
			_ = b.Close()
			t.Errorf("%q was accepted", root)
		}
	}
}

func FuzzResolveStaysBelowTheRoot(f *testing.F) {
	root := f.TempDir()
	b, err := Open(Options{Root: root, Isolation: None})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = b.Close() })
	if err := os.Symlink("/../..", root+Home+"/link"); err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", "/", "~", "~/", "..", "link/../../x", "/home/user/link/etc", "a\x00b", "//x//."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		at, err := b.Resolve(p)
		if err != nil {
			return
		}
		if clean := filepath.Clean(at.Host); clean != root && !strings.HasPrefix(clean, root+"/") {
			t.Fatalf("%q leads to %q", p, at.Host)
		}
	})
}
