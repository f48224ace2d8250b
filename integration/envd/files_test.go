package envd

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"
)

// do sends a plain request and gives status and body.
func (s *sandbox) do(t *testing.T, method, target string, header http.Header, body io.Reader) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+target, body)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(got)
}

func (s *sandbox) get(t *testing.T, target string, header http.Header) (int, string) {
	t.Helper()
	resp, body := s.do(t, http.MethodGet, target, header, nil)
	return resp.StatusCode, body
}

// form builds a multipart body from name, file name, content triples.
func form(t *testing.T, parts ...[3]string) (string, io.Reader) {
	t.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	for _, p := range parts {
		header := textproto.MIMEHeader{}
		header.Set("Content-Disposition", fmt.Sprintf(`form-data; name=%q; filename=%q`, p[0], p[1]))
		part, err := w.CreatePart(header)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, p[2])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), &buf
}

func (s *sandbox) postForm(t *testing.T, target string, parts ...[3]string) (int, string) {
	t.Helper()
	kind, body := form(t, parts...)
	resp, got := s.do(t, http.MethodPost, target, http.Header{"Content-Type": {kind}}, body)
	return resp.StatusCode, got
}

func zipped(t *testing.T, text string) io.Reader {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}

// wantJSONError checks envd's error shape.
func wantJSONError(t *testing.T, status int, body string, want int) {
	t.Helper()
	var e struct {
		Code    int
		Message string
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || status != want || e.Code != want || e.Message == "" {
		t.Fatalf("status %d, body %s, want a JSON error %d", status, body, want)
	}
}

func TestUploadedFilesComeBack(t *testing.T) {
	for _, name := range []string{"plain", "a b", "a+b", "100%", "ünï/çødé", "q?&=#", `back\slash`} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{})
			target := "/files?path=" + url.QueryEscape(name)
			status, body := s.postForm(t, target, [3]string{"file", name, "content"})
			var written []writtenFile
			if err := json.Unmarshal([]byte(body), &written); err != nil || status != 200 || len(written) != 1 ||
				written[0].Path != "/home/user/"+name || written[0].Type != "file" {
				t.Fatalf("%d %s", status, body)
			}
			if status, body := s.get(t, target, nil); status != 200 || body != "content" {
				t.Errorf("%d %q", status, body)
			}
		})
	}
}

func TestManyPartsWithoutAPathGoWhereTheirNamesSay(t *testing.T) {
	s := open(t, Options{})
	status, body := s.postForm(t, "/files", [3]string{"file", "d/one", "1"}, [3]string{"other", "ignored", "-"}, [3]string{"file", "/tmp/two", "2"})
	var written []writtenFile
	if err := json.Unmarshal([]byte(body), &written); err != nil || status != 200 || len(written) != 2 ||
		written[0].Path != "/home/user/d/one" || written[1].Path != "/tmp/two" || written[1].Name != "two" {
		t.Fatalf("%d %s", status, body)
	}
	for p, want := range map[string]string{"d/one": "1", "/tmp/two": "2"} {
		if _, got := s.get(t, "/files?path="+p, nil); got != want {
			t.Errorf("%s holds %q", p, got)
		}
	}
}

func TestOnePathTwiceInAnUploadIsRefused(t *testing.T) {
	s := open(t, Options{})
	status, body := s.postForm(t, "/files", [3]string{"file", "f", "first"}, [3]string{"file", "/home/user/f", "second"})
	wantJSONError(t, status, body, 400)
	if _, got := s.get(t, "/files?path=f", nil); got != "first" {
		t.Errorf("file holds %q", got)
	}
}

func TestRawAndGzippedUploads(t *testing.T) {
	s := open(t, Options{})
	raw := http.Header{"Content-Type": {"application/octet-stream"}}
	if resp, body := s.do(t, http.MethodPost, "/files?path=raw", raw, strings.NewReader("raw")); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	packed := http.Header{"Content-Type": {"application/octet-stream"}, "Content-Encoding": {"gzip"}}
	if resp, body := s.do(t, http.MethodPost, "/files?path=zip", packed, zipped(t, "unzipped")); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	for p, want := range map[string]string{"raw": "raw", "zip": "unzipped"} {
		if _, got := s.get(t, "/files?path="+p, nil); got != want {
			t.Errorf("%s holds %q", p, got)
		}
	}
	resp, body := s.do(t, http.MethodPost, "/files?path=x", packed, strings.NewReader("no gzip"))
	wantJSONError(t, resp.StatusCode, body, 400)
	resp, body = s.do(t, http.MethodPost, "/files", raw, strings.NewReader("x"))
	wantJSONError(t, resp.StatusCode, body, 400)
	resp, body = s.do(t, http.MethodPost, "/files?path=x", http.Header{"Content-Type": {"text/plain"}}, strings.NewReader("x"))
	wantJSONError(t, resp.StatusCode, body, 400)
}

func TestAnUploadReplacesTheFile(t *testing.T) {
	s := open(t, Options{})
	s.put(t, "/home/user/f", "a long old content")
	s.postForm(t, "/files?path=f", [3]string{"file", "f", ""})
	if status, got := s.get(t, "/files?path=f", nil); status != 200 || got != "" {
		t.Errorf("%d %q", status, got)
	}
	status, body := s.postForm(t, "/files?path=/tmp", [3]string{"file", "f", "x"})
	wantJSONError(t, status, body, 400)
	status, body = s.postForm(t, "/files?path=f/below", [3]string{"file", "f", "x"})
	wantJSONError(t, status, body, 500)
}

func TestMetadataStaysWithTheFile(t *testing.T) {
	s := open(t, Options{})
	header := http.Header{"Content-Type": {"application/octet-stream"}, "X-Metadata-Color": {"red"}}
	resp, body := s.do(t, http.MethodPost, "/files?path=f", header, strings.NewReader("x"))
	if resp.StatusCode != 200 || !strings.Contains(body, `"metadata":{"color":"red"}`) {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if got := s.mustStat(t, "f").GetMetadata(); len(got) != 1 || got["color"] != "red" {
		t.Errorf("metadata %v", got)
	}
}

func TestDownloadErrors(t *testing.T) {
	s := open(t, Options{})
	for p, want := range map[string]int{"none": 404, "/tmp": 400, "~root": 400} {
		status, body := s.get(t, "/files?path="+p, nil)
		wantJSONError(t, status, body, want)
	}
	status, body := s.get(t, "/no/such/route", nil)
	wantJSONError(t, status, body, 404)
}

func TestDownloadsAreGzippedForThoseWhoAcceptIt(t *testing.T) {
	s := open(t, Options{})
	s.put(t, "/home/user/f", "content")
	for accepts, want := range map[string]string{
		"gzip": "gzip", "deflate, GZIP;q=0.5": "gzip", "": "", "identity": "", "gzip;q=0": "", "deflate, br": "",
	} {
		resp, body := s.do(t, http.MethodGet, "/files?path=f", http.Header{"Accept-Encoding": {accepts}}, nil)
		if got := resp.Header.Get("Content-Encoding"); got != want {
			t.Errorf("%q gives encoding %q, want %q", accepts, got, want)
			continue
		}
		if want == "gzip" {
			r, err := gzip.NewReader(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			body = string(plain)
		}
		if body != "content" {
			t.Errorf("%q gives %q", accepts, body)
		}
	}
}

func TestRangesComePlain(t *testing.T) {
	s := open(t, Options{})
	s.put(t, "/home/user/f", "content")
	resp, body := s.do(t, http.MethodGet, "/files?path=f", http.Header{"Accept-Encoding": {"gzip"}, "Range": {"bytes=1-3"}}, nil)
	if resp.StatusCode != http.StatusPartialContent || body != "ont" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

func TestASecuredSandboxWantsItsToken(t *testing.T) {
	s := open(t, Options{AccessToken: "tok"})
	for _, p := range []string{"/process.Process/List", "/filesystem.Filesystem/Stat", "/process.Process/Start"} {
		for token, want := range map[string]int{"": 401, "tokk": 401, "tok": 0} {
			header := http.Header{"Content-Type": {"application/json"}}
			if token != "" {
				header.Set("X-Access-Token", token)
			}
			resp, body := s.do(t, http.MethodPost, p, header, strings.NewReader("{}"))
			if want != 0 {
				wantJSONError(t, resp.StatusCode, body, want)
			} else if resp.StatusCode == 401 {
				t.Errorf("%s with the right token: %s", p, body)
			}
		}
	}
}

func TestTheSignatureOfBothSDKs(t *testing.T) {
	if got, want := accessToken("tok").sign("/a b", writeOperation, "", ""), "v1_upXYtgfjE0sStrkhPJZclIotbVc2M+mbE2ySk0Np1Pw"; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

func TestFilesOfASecuredSandboxNeedATokenOrASignature(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	const token = accessToken("tok")
	signed := func(op operation, user, expiration string) url.Values {
		q := url.Values{"path": {"f"}, "signature": {token.sign("f", op, user, expiration)}}
		if user != "" {
			q.Set("username", user)
		}
		if expiration != "" {
			q.Set("signature_expiration", expiration)
		}
		return q
	}
	with := func(q url.Values, key, value string) url.Values { q.Set(key, value); return q }
	for name, c := range map[string]struct {
		query  url.Values
		header string
		want   error
	}{
		"right token":                         {url.Values{}, "tok", nil},
		"wrong token":                         {url.Values{}, "no", errWrongToken},
		"wrong token beats a right signature": {signed(readOperation, "", ""), "no", errWrongToken},
		"right token beats a wrong signature": {url.Values{"signature": {"v1_x"}}, "tok", nil},
		"nothing":                             {url.Values{"path": {"f"}}, "", errMissingSignature},
		"right signature":                     {signed(readOperation, "", ""), "", nil},
		"right signature for a user":          {signed(readOperation, "user", ""), "", nil},
		"user taken away":                     {with(signed(readOperation, "user", ""), "username", ""), "", errWrongSignature},
		"another path":                        {with(signed(readOperation, "", ""), "path", "g"), "", errWrongSignature},
		"signature for writing":               {signed(writeOperation, "", ""), "", errWrongSignature},
		"not yet expired":                     {signed(readOperation, "", "1000000"), "", nil},
		"expired":                             {signed(readOperation, "", "999999"), "", errExpiredSignature},
		"expiration moved":                    {with(signed(readOperation, "", "999999"), "signature_expiration", "1000001"), "", errWrongSignature},
		"expiration is no number":             {signed(readOperation, "", "soon"), "", errWrongSignature},
	} {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{Header: http.Header{}}
			if c.header != "" {
				r.Header.Set("X-Access-Token", c.header)
			}
			if got := token.allowsFile(r, c.query, readOperation, now); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestFileRoutesCheckTheirOwnOperation(t *testing.T) {
	s := open(t, Options{AccessToken: "tok"})
	s.put(t, "/home/user/f", "x")
	read := "/files?path=f&signature=" + url.QueryEscape(s.handler.token.sign("f", readOperation, "", ""))
	write := "/files?path=f&signature=" + url.QueryEscape(s.handler.token.sign("f", writeOperation, "", ""))
	if status, body := s.get(t, read, nil); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.postForm(t, write, [3]string{"file", "f", "y"}); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	status, body := s.get(t, write, nil)
	wantJSONError(t, status, body, 401)
	status, body = s.postForm(t, read, [3]string{"file", "f", "z"})
	wantJSONError(t, status, body, 401)
	if _, got := s.get(t, read, nil); got != "y" {
		t.Errorf("file holds %q", got)
	}
}
