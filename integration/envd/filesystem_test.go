package envd

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/filesystempb"
)

// put writes a file straight into the sandbox, making its directory.
func (s *sandbox) put(t *testing.T, p, content string) {
	t.Helper()
	host, err := s.handler.tree.hostFollowed(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(host), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(host, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
}

// link makes a symbolic link straight in the sandbox.
func (s *sandbox) link(t *testing.T, target, p string) {
	t.Helper()
	host, err := s.handler.tree.host(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, host); err != nil {
		t.Fatal(err)
	}
}

func (s *sandbox) stat(t *testing.T, p string) (*filesystempb.EntryInfo, error) {
	t.Helper()
	resp, err := s.files.Stat(t.Context(), connect.NewRequest(&filesystempb.StatRequest{Path: p}))
	if err != nil {
		return nil, err
	}
	return resp.Msg.GetEntry(), nil
}

func (s *sandbox) mustStat(t *testing.T, p string) *filesystempb.EntryInfo {
	t.Helper()
	e, err := s.stat(t, p)
	if err != nil {
		t.Fatalf("Stat %s: %v", p, err)
	}
	return e
}

func (s *sandbox) listDir(t *testing.T, p string, depth uint32) ([]string, error) {
	t.Helper()
	resp, err := s.files.ListDir(t.Context(), connect.NewRequest(&filesystempb.ListDirRequest{Path: p, Depth: depth}))
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range resp.Msg.GetEntries() {
		paths = append(paths, e.GetPath())
	}
	return paths, nil
}

func TestStatDescribesAFile(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		s.put(t, "/home/user/a b.txt", "12345")
		e := s.mustStat(t, "a b.txt")
		if e.GetName() != "a b.txt" || e.GetPath() != "/home/user/a b.txt" || e.GetType() != filesystempb.FileType_FILE_TYPE_FILE ||
			e.GetSize() != 5 || e.GetMode() != 0o640 || e.GetPermissions() != "-rw-r-----" || e.GetOwner() != "user" ||
			e.GetGroup() != "user" || !e.GetModifiedTime().IsValid() || e.GetModifiedTime().GetSeconds() == 0 || e.SymlinkTarget != nil {
			t.Errorf("entry %v", e)
		}
	})
}

func TestPathsStartAtHome(t *testing.T) {
	s := open(t, Options{})
	s.put(t, "/home/user/d/f", "")
	for sent, want := range map[string]string{
		"d": "/home/user/d", "./d//f": "/home/user/d/f", "": "/home/user", "~": "/home/user", "~/d": "/home/user/d",
		"/home/../home/user/d/": "/home/user/d", "../../../../home": "/home", "/": "/",
	} {
		if got := s.mustStat(t, sent).GetPath(); got != want {
			t.Errorf("%q is %q, want %q", sent, got, want)
		}
	}
	_, err := s.stat(t, "~root/x")
	wantCode(t, err, connect.CodeInvalidArgument)
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		_, err := s.stat(t, "none")
		wantCode(t, err, connect.CodeNotFound)
		_, err = s.listDir(t, "none", 1)
		wantCode(t, err, connect.CodeNotFound)
		_, err = s.files.Move(t.Context(), connect.NewRequest(&filesystempb.MoveRequest{Source: "none", Destination: "x"}))
		wantCode(t, err, connect.CodeNotFound)
		_, err = s.files.CreateWatcher(t.Context(), connect.NewRequest(&filesystempb.CreateWatcherRequest{Path: "none"}))
		wantCode(t, err, connect.CodeNotFound)
		if _, err = s.files.Remove(t.Context(), connect.NewRequest(&filesystempb.RemoveRequest{Path: "none"})); err != nil {
			t.Errorf("removing nothing: %v", err)
		}
	})
}

func TestLinksHaveTheTypeOfTheirTarget(t *testing.T) {
	s := open(t, Options{})
	s.put(t, "/home/user/d/f", "x")
	s.link(t, "d", "/home/user/dir")
	s.link(t, "/home/user/dir/f", "/home/user/file")
	s.link(t, "nowhere", "/home/user/broken")
	s.link(t, "loop", "/home/user/loop")
	for p, want := range map[string]struct {
		kind   filesystempb.FileType
		target string
	}{
		"dir":    {filesystempb.FileType_FILE_TYPE_DIRECTORY, "/home/user/d"},
		"file":   {filesystempb.FileType_FILE_TYPE_FILE, "/home/user/d/f"},
		"broken": {filesystempb.FileType_FILE_TYPE_SYMLINK, "nowhere"},
		"loop":   {filesystempb.FileType_FILE_TYPE_SYMLINK, "loop"},
	} {
		if e := s.mustStat(t, p); e.GetType() != want.kind || e.GetSymlinkTarget() != want.target {
			t.Errorf("%s is %v to %q, want %v to %q", p, e.GetType(), e.GetSymlinkTarget(), want.kind, want.target)
		}
	}
	if got, err := s.listDir(t, "dir", 1); err != nil || !slices.Equal(got, []string{"/home/user/dir/f"}) {
		t.Errorf("through the link: %v, %v", got, err)
	}
	_, err := s.listDir(t, "loop", 1)
	wantCode(t, err, connect.CodeFailedPrecondition)
}

func TestLinksDoNotLeadOutOfTheSandbox(t *testing.T) {
	s := open(t, Options{})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("not for you"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.link(t, secret, "/home/user/absolute")
	s.link(t, "../../../../../../../.."+secret, "/home/user/relative")
	for _, p := range []string{"absolute", "relative", secret} {
		status, body := s.get(t, "/files?path="+url.QueryEscape(p), nil)
		if status != 404 || strings.Contains(body, "not for you") {
			t.Errorf("GET %s: %d %s", p, status, body)
		}
	}
}

func TestMakeDirTwiceSaysSo(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		make := func(p string) error {
			_, err := s.files.MakeDir(t.Context(), connect.NewRequest(&filesystempb.MakeDirRequest{Path: p}))
			return err
		}
		if err := make("a/b/c"); err != nil {
			t.Fatal(err)
		}
		if e := s.mustStat(t, "/home/user/a/b/c"); e.GetType() != filesystempb.FileType_FILE_TYPE_DIRECTORY {
			t.Errorf("made %v", e)
		}
		wantCode(t, make("a/b/c"), connect.CodeAlreadyExists)
		s.put(t, "/home/user/f", "")
		wantCode(t, make("f"), connect.CodeInvalidArgument)
		wantCode(t, make("f/below"), connect.CodeInternal)
	})
}

func TestMoveMakesParentsAndDescribesTheResult(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		s.put(t, "/home/user/f", "x")
		resp, err := s.files.Move(t.Context(), connect.NewRequest(&filesystempb.MoveRequest{Source: "f", Destination: "/tmp/new/g"}))
		if err != nil {
			t.Fatal(err)
		}
		if e := resp.Msg.GetEntry(); e.GetPath() != "/tmp/new/g" || e.GetName() != "g" || e.GetSize() != 1 {
			t.Errorf("entry %v", e)
		}
		_, err = s.stat(t, "f")
		wantCode(t, err, connect.CodeNotFound)
	})
}

func TestListDirGoesAsDeepAsAsked(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		s.put(t, "/home/user/l/b/c/d", "")
		s.put(t, "/home/user/l/a", "")
		for depth, want := range map[uint32]string{
			0: "a b", 1: "a b", 2: "a b b/c", 3: "a b b/c b/c/d", 9: "a b b/c b/c/d",
		} {
			got, err := s.listDir(t, "l", depth)
			if err != nil {
				t.Fatal(err)
			}
			if short := strings.ReplaceAll(strings.Join(got, " "), "/home/user/l/", ""); short != want {
				t.Errorf("depth %d: %q, want %q", depth, short, want)
			}
		}
		_, err := s.listDir(t, "l/a", 1)
		wantCode(t, err, connect.CodeInvalidArgument)
	})
}

func TestListDirOfTheRoot(t *testing.T) {
	s := open(t, Options{})
	got, err := s.listDir(t, "/", 1)
	if err != nil || !slices.Contains(got, "/home") || !slices.Contains(got, "/tmp") {
		t.Errorf("%v, %v", got, err)
	}
}

func TestRemoveTakesTreesButNotTheRoot(t *testing.T) {
	inEveryDialect(t, func(t *testing.T, s *sandbox) {
		s.put(t, "/home/user/d/e/f", "")
		s.put(t, "/home/user/kept", "")
		s.link(t, "../kept", "/home/user/d/l")
		remove := func(p string) error {
			_, err := s.files.Remove(t.Context(), connect.NewRequest(&filesystempb.RemoveRequest{Path: p}))
			return err
		}
		if err := remove("d"); err != nil {
			t.Fatal(err)
		}
		_, err := s.stat(t, "d")
		wantCode(t, err, connect.CodeNotFound)
		s.mustStat(t, "kept") // a link's target stays
		wantCode(t, remove("/"), connect.CodeInternal)
		wantCode(t, remove("../../"), connect.CodeInternal)
	})
}

func TestErrorsNameNoPathOfTheMachine(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	s := open(t, Options{Root: root})
	s.put(t, "/home/user/f", "")
	var errs []error
	_, err := s.stat(t, "f/below")
	errs = append(errs, err)
	_, err = s.listDir(t, "f/below", 1)
	errs = append(errs, err)
	_, err = s.files.MakeDir(t.Context(), connect.NewRequest(&filesystempb.MakeDirRequest{Path: "f/below/it"}))
	errs = append(errs, err)
	_, err = s.files.Move(t.Context(), connect.NewRequest(&filesystempb.MoveRequest{Source: "f", Destination: "/home"}))
	errs = append(errs, err)
	for _, err := range errs {
		if err == nil || strings.Contains(err.Error(), root) || strings.Contains(err.Error(), "/proc/") {
			t.Errorf("error is %v", err)
		}
	}
}
