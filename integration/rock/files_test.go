package rock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// form builds a multipart body: name of the part, raw filename parameter, content.
func form(parts ...[3]string) (contentType, body string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		cd := `form-data; name="` + p[0] + `"`
		if p[1] != "" {
			cd += `; filename="` + p[1] + `"`
		}
		part, _ := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {cd}})
		_, _ = part.Write([]byte(p[2]))
	}
	_ = w.Close()
	return w.FormDataContentType(), b.String()
}

func (g *rig) upload(id, query string, parts ...[3]string) reply {
	g.Helper()
	kind, body := form(parts...)
	return g.do("POST", g.proxy.URL()+"/files"+query, body, "Content-Type", kind, sandboxHeader, id)
}

func (g *rig) download(id, query string) reply {
	g.Helper()
	return g.do("GET", g.proxy.URL()+"/files"+query, "", sandboxHeader, id)
}

func TestWriteAndReadFilesByPathRules(t *testing.T) {
	g := newRig(t, Options{})
	g.create("f")
	for query, want := range map[string]string{
		"?path=/tmp/deep/er/f.txt":   "/tmp/deep/er/f.txt",
		"?path=rel&username=user":    "/home/user/rel",
		"?path=~/x":                  "/home/user/x",
		"?path=/a/./b/../c":          "/a/c",
		"?path=/sp+ace%20d":          "/sp ace d",
		"?path=/%C3%BC%2B%25":        "/ü+%",
		"?path=../../../../../climb": "/climb",
	} {
		g.upload("f", query, [3]string{"file", "ignored", "data of " + want}).want(t, 200,
			fmt.Sprintf(`[{"name":%q,"path":%q,"type":"file"}]`, filepath.Base(want), want))
		g.download("f", query).want(t, 200, "data of "+want)
	}
}

func TestUploadWithoutPathUsesThePartsFileNamesInOrder(t *testing.T) {
	g := newRig(t, Options{})
	g.create("f")
	g.upload("f", "", [3]string{"note", "", "a field"}, [3]string{"file", "/w/ü +%41", "1"}, [3]string{"file", `two %22q%22`, "2"}).want(t, 200,
		`[{"name":"ü +%41","path":"/w/ü +%41","type":"file"},{"name":"two \"q\"","path":"/home/user/two \"q\"","type":"file"}]`)
	g.download("f", "?path=/w/%C3%BC%20%2B%2541").want(t, 200, "1")
}

func TestUploadOverwritesAndEmptyFilesAreFiles(t *testing.T) {
	g := newRig(t, Options{})
	g.create("f")
	g.upload("f", "?path=/e", [3]string{"file", "e", "long content"})
	g.upload("f", "?path=/e", [3]string{"file", "e", ""})
	r := g.download("f", "?path=/e")
	r.want(t, 200, "")
	if r.header.Get("Content-Length") != "" {
		t.Fatalf("got %v: the body streams from the rocklet, without a length", r.header)
	}
}

func TestUploadBatchIsNotAtomic(t *testing.T) {
	g := newRig(t, Options{})
	g.create("f")
	g.rpc("f", "MakeDir", `{"path":"/dir"}`)
	if r := g.upload("f", "", [3]string{"file", "/first", "1"}, [3]string{"file", "/dir", "2"}, [3]string{"file", "/third", "3"}); r.status != 400 {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	g.download("f", "?path=/first").want(t, 200, "1")
	if r := g.download("f", "?path=/third"); r.status != 404 {
		t.Fatalf("got %d", r.status)
	}
}

func TestFileFailures(t *testing.T) {
	g := newRig(t, Options{})
	g.create("f")
	paused := g.create("paused")
	if err := paused.Stop(Stopped); err != nil {
		t.Fatal(err)
	}
	g.upload("f", "?path=/file", [3]string{"file", "x", "x"})
	g.download("f", "?path=/missing").want(t, 404, `{"code":404,"message":"path not found: /missing"}`)
	g.download("paused", "?path=/file").want(t, 404, `{"code":404,"message":"sandbox is not running"}`)
	g.download("never", "?path=/file").want(t, 404, `{"code":404,"message":"sandbox is not running"}`)
	for _, r := range []reply{
		g.download("f", "?path=/home"), g.download("f", ""), g.download("f", "?path="), g.download("f", "?path=/file/below"),
		g.download("f", "?path=/file&username=root"), g.download("f", "?path=/file&username="), g.download("f", "?path=a%00b"), g.download("", "?path=/file"),
		g.upload("f", "?path=/home", [3]string{"file", "x", "x"}), g.upload("f", "?path=/file/below", [3]string{"file", "x", "x"}),
		g.upload("f", "?path=/x"), g.upload("f", "?path=/x", [3]string{"other", "x", "x"}), g.upload("f", "?path=/x&username=root", [3]string{"file", "x", "x"}),
		g.upload("f", "?path=/x", [3]string{"file", "a", ""}, [3]string{"file", "b", ""}),
		g.do("POST", g.proxy.URL()+"/files?path=/x", "raw", "Content-Type", "application/octet-stream", sandboxHeader, "f"),
		g.do("POST", g.proxy.URL()+"/files?path=/x", "raw", "Content-Type", "multipart/form-data; boundary=b", sandboxHeader, "f"),
	} {
		if r.status != 400 || !strings.Contains(r.body, `"code":400`) {
			t.Errorf("got %d %s", r.status, r.body)
		}
	}
}

func TestUploadTakesAtMost256FilesAnd16Fields(t *testing.T) {
	g := newRig(t, Options{})
	g.create("f")
	parts := make([][3]string, 256)
	for i := range parts {
		parts[i] = [3]string{"file", fmt.Sprintf("/many/%d", i), "x"}
	}
	if r := g.upload("f", "", parts...); r.status != 200 {
		t.Fatalf("256: got %d %s", r.status, r.body)
	}
	if r := g.upload("f", "", append(parts, [3]string{"file", "/one/more", "x"})...); r.status != 400 {
		t.Fatalf("257: got %d", r.status)
	}
	fields := make([][3]string, 17)
	for i := range fields {
		fields[i] = [3]string{"field", "", "x"}
	}
	if r := g.upload("f", "", append(fields, [3]string{"file", "/one/more", "x"})...); r.status != 400 {
		t.Fatalf("17 fields: got %d", r.status)
	}
}

func TestKillDuringADownloadBreaksIt(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("f")
	box, err := s.Box()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(box.Root()+"/big", make([]byte, 64<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	resp := g.open("GET", g.proxy.URL()+"/files?path=/big", "", sandboxHeader, "f")
	defer func() { _ = resp.Body.Close() }()
	if err := s.Stop(Stopped); err != nil {
		t.Fatal(err)
	}
	var n bytes.Buffer
	if _, err := n.ReadFrom(resp.Body); err == nil {
		t.Fatalf("the body ended cleanly after %d bytes", n.Len())
	}
}

func TestMakeDirIsRecursiveAndTheSecondAlreadyExists(t *testing.T) {
	g := newRig(t, Options{})
	g.create("d")
	var got struct{ Entry entryInfo }
	r := g.rpc("d", "MakeDir", `{"path":"a/b"}`)
	r.json(t, &got)
	if r.status != 200 || got.Entry.Path != "/home/user/a/b" || got.Entry.Type != "FILE_TYPE_DIRECTORY" || got.Entry.Permissions != "drwxr-xr-x" {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	g.rpc("d", "MakeDir", `{"path":"a/b"}`).want(t, 409, `{"code":"already_exists","message":"directory already exists: /home/user/a/b"}`)
	g.upload("d", "?path=/file", [3]string{"file", "x", "x"})
	for _, p := range []string{`/file`, `/file/sub`, ``} {
		if r := g.rpc("d", "MakeDir", `{"path":"`+p+`"}`); r.status != 400 || !strings.Contains(r.body, `"code":"invalid_argument"`) {
			t.Errorf("%q: got %d %s", p, r.status, r.body)
		}
	}
}

func TestStatDescribesFilesDirectoriesAndLinks(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("s")
	box, err := s.Box()
	if err != nil {
		t.Fatal(err)
	}
	file := box.Root() + "/home/user/f"
	if err := os.WriteFile(file, []byte("12345"), 0o640); err != nil {
		t.Fatal(err)
	}
	when := time.Date(2026, 8, 21, 6, 12, 44, 5000, time.UTC)
	if err := os.Chtimes(file, when, when); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link": "/home/user/f", "broken": "/nowhere", "loop": "loop"} {
		if err := os.Symlink(target, box.Root()+"/home/user/"+link); err != nil {
			t.Fatal(err)
		}
	}
	r := g.rpc("s", "Stat", `{"path":"f"}`)
	var raw struct{ Entry map[string]any }
	r.json(t, &raw)
	for k, want := range map[string]any{"name": "f", "path": "/home/user/f", "type": "FILE_TYPE_FILE", "size": "5", "mode": float64(0o640),
		"permissions": "-rw-r-----", "modifiedTime": "2026-08-21T06:12:44.000005Z", "symlinkTarget": nil} {
		if !reflect.DeepEqual(raw.Entry[k], want) {
			t.Errorf("%s: got %v, want %v", k, raw.Entry[k], want)
		}
	}
	if raw.Entry["owner"] == "" || raw.Entry["group"] == "" {
		t.Errorf("got %v", raw.Entry)
	}
	var got struct{ Entry entryInfo }
	g.rpc("s", "Stat", `{"path":"link"}`).json(t, &got)
	if got.Entry.Path != "/home/user/link" || got.Entry.Type != "FILE_TYPE_FILE" || got.Entry.SymlinkTarget != "/home/user/f" || got.Entry.Size != 5 {
		t.Fatalf("got %+v", got)
	}
	got.Entry = entryInfo{}
	g.rpc("s", "Stat", `{"path":"/"}`).json(t, &got)
	if got.Entry.Path != "/" || got.Entry.Type != "FILE_TYPE_DIRECTORY" {
		t.Fatalf("got %+v", got)
	}
	for _, p := range []string{"broken", "loop", "/missing"} {
		if r := g.rpc("s", "Stat", `{"path":"`+p+`"}`); r.status != 404 || !strings.Contains(r.body, `"code":"not_found"`) {
			t.Errorf("%s: got %d %s", p, r.status, r.body)
		}
	}
}

func TestNotRunningLooksLikeAMissingFile(t *testing.T) {
	g := newRig(t, Options{})
	for _, method := range []string{"MakeDir", "ListDir", "Stat"} {
		g.rpc("never", method, `{"path":"/"}`).want(t, 404, `{"code":"not_found","message":"sandbox is not running"}`)
		if r := g.do("POST", g.proxy.URL()+"/filesystem.Filesystem/"+method, `{"path":"/"}`); r.status != 400 {
			t.Errorf("without header: got %d %s", r.status, r.body)
		}
		if r := g.rpc("never", method, `nope`); r.status != 400 {
			t.Errorf("not JSON: got %d %s", r.status, r.body)
		}
		if r := g.rpc("never", method, strings.Repeat(" ", 1<<20)+"{}"); r.status != 400 {
			t.Errorf("over 1 MiB: got %d %s", r.status, r.body)
		}
	}
}

func (g *rig) list(id, body string) []string {
	g.Helper()
	var got struct{ Entries []entryInfo }
	r := g.rpc(id, "ListDir", body)
	if r.status != 200 {
		g.Fatalf("%s: got %d %s", body, r.status, r.body)
	}
	r.json(g, &got)
	paths := []string{}
	for _, e := range got.Entries {
		paths = append(paths, e.Path)
	}
	return paths
}

func TestListDirIsOrderedByPathAndGoesToTheAskedDepth(t *testing.T) {
	g := newRig(t, Options{})
	g.create("l")
	for _, d := range []string{"/l/b/c/d", "/l/a", "/l/empty"} {
		g.rpc("l", "MakeDir", `{"path":"`+d+`"}`)
	}
	g.upload("l", "?path=/l/b.txt", [3]string{"file", "x", "x"})
	s := g.c.Sandbox("l")
	box, err := s.Box()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/l", box.Root()+"/l/a/again"); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string][]string{
		`{"path":"/l"}`:             {"/l/a", "/l/b", "/l/b.txt", "/l/empty"},
		`{"path":"/l","depth":1}`:   {"/l/a", "/l/b", "/l/b.txt", "/l/empty"},
		`{"path":"/l","depth":2}`:   {"/l/a", "/l/a/again", "/l/b", "/l/b.txt", "/l/b/c", "/l/empty"},
		`{"path":"/l","depth":100}`: {"/l/a", "/l/a/again", "/l/b", "/l/b.txt", "/l/b/c", "/l/b/c/d", "/l/empty"},
		`{"path":"/l/empty"}`:       {},
	} {
		if got := g.list("l", body); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v", body, got)
		}
	}
	for _, body := range []string{`{"path":"/l","depth":0}`, `{"path":"/l","depth":101}`, `{"path":"/l","depth":-1}`, `{"path":"/missing"}`, `{"path":"/l/b.txt"}`, `{"path":""}`, `{}`} {
		if r := g.rpc("l", "ListDir", body); r.status != 400 || !strings.Contains(r.body, `"code":"invalid_argument"`) {
			t.Errorf("%s: got %d %s", body, r.status, r.body)
		}
	}
}

func TestListDirRefusesMoreThanTenThousandEntries(t *testing.T) {
	g := newRig(t, Options{Isolation: run.None})
	s := g.create("l")
	box, err := s.Box()
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxEntries {
		if err := os.WriteFile(fmt.Sprintf("%s/home/user/%d", box.Root(), i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.list("l", `{"path":"/home/user"}`); len(got) != maxEntries {
		t.Fatalf("got %d", len(got))
	}
	if err := os.WriteFile(box.Root()+"/home/user/more", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := g.rpc("l", "ListDir", `{"path":"/home/user"}`); r.status != 400 {
		t.Fatalf("got %d", r.status)
	}
}

func TestPermissionStringIsThatOfLs(t *testing.T) {
	for mode, want := range map[os.FileMode]string{0o755: "-rwxr-xr-x", os.ModeDir | os.ModeSticky | 0o777: "drwxrwxrwt", os.ModeSetuid | 0o644: "-rwSr--r--",
		os.ModeSetgid | 0o755: "-rwxr-sr-x", os.ModeNamedPipe: "p---------", os.ModeSocket | 0o7: "s------rwx"} {
		if got := permissionString(mode); got != want {
			t.Errorf("%v: got %s, want %s", mode, got, want)
		}
	}
	if got := permissionBits(os.ModeSticky | 0o777); got != 0o1777 {
		t.Errorf("got %o", got)
	}
}

func FuzzDisposition(f *testing.F) {
	for _, s := range []string{`form-data; name="file"; filename="a"`, `form-data; name=file; filename*=UTF-8''a%20b`, `form-data; filename="a\"b\\`, `;;=;"`} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) { disposition(s) })
}

func TestMessagesNameSandboxPathsOnly(t *testing.T) {
	g := newRig(t, Options{})
	s := g.create("m")
	if _, err := s.Box(); err != nil {
		t.Fatal(err)
	}
	long, _ := json.Marshal(map[string]string{"path": "/" + strings.Repeat("x", 300)})
	for _, r := range []reply{g.rpc("m", "Stat", `{"path":"/no"}`), g.rpc("m", "MakeDir", string(long)), g.download("m", "?path=/no"), g.rpc("m", "Stat", `{"path":"/no/such/sub"}`)} {
		if r.status < 400 || strings.Contains(r.body, s.dir) || strings.Contains(r.body, "/proc/self") || strings.Contains(r.body, "/task/") {
			t.Errorf("got %d %s", r.status, r.body)
		}
	}
}
