package rock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// Limits of a multipart upload.
const (
	maxFiles  = 256
	maxFields = 16
)

// fileStatus turns a filesystem failure into /files' status. Only here does an unreachable rocklet give 502.
func fileStatus(err error) int {
	switch connectCodeOf(err) {
	case codeInvalid:
		return http.StatusBadRequest
	case codePermission:
		return http.StatusForbidden
	case codeNotFound:
		return http.StatusNotFound
	case codeUnavailable:
		return http.StatusBadGateway
	default:
		return http.StatusInternalServerError
	}
}

func fileError(w http.ResponseWriter, err error) { e2bError(w, fileStatus(err), messageOf(err)) }

// fileRequest checks what GET and POST have in common.
func (c *Cluster) fileRequest(r *http.Request) (*Sandbox, url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, nil, invalid("invalid query")
	}
	if query.Has("username") && query.Get("username") != "user" {
		return nil, nil, invalid("username must be user")
	}
	s, err := c.running(r)
	if err != nil {
		return nil, nil, err
	}
	s.touch()
	return s, query, nil
}

// readFile streams a file: 200, chunked.
func (c *Cluster) readFile(w http.ResponseWriter, r *http.Request, _ string) {
	s, query, err := c.fileRequest(r)
	if err != nil {
		fileError(w, err)
		return
	}
	p := query.Get("path")
	_, at, err := s.locate(p)
	if err != nil {
		fileError(w, err)
		return
	}
	fi, err := os.Stat(at.Host)
	if err == nil && !fi.Mode().IsRegular() {
		err = invalid("not a regular file: " + run.Abs(p))
		fileError(w, err)
		return
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(at.Host)
	}
	if err != nil {
		fileError(w, fsError(err, p))
		return
	}
	defer func() { _ = f.Close() }()
	life := s.container()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	if http.NewResponseController(w).Flush() != nil { // chunked from here on, even for an empty file
		return
	}
	buf := make([]byte, 64<<10)
	for {
		if life.over() {
			panic(http.ErrAbortHandler) // the stream from the rocklet broke
		}
		n, err := f.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// writeInfo is one item of the answer.
type writeInfo struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type"`
}

// writeFiles takes the whole form first and then writes file by file; what was written before a failure stays.
func (c *Cluster) writeFiles(w http.ResponseWriter, r *http.Request, _ string) {
	s, query, err := c.fileRequest(r)
	if err != nil {
		fileError(w, err)
		return
	}
	spool, err := os.MkdirTemp(c.dir, "upload-")
	if err != nil {
		fileError(w, err)
		return
	}
	defer func() { _ = os.RemoveAll(spool) }()
	parts, err := receive(r, spool)
	if err != nil {
		fileError(w, err)
		return
	}
	if len(parts) == 0 {
		fileError(w, invalid("no file part"))
		return
	}
	if p := query.Get("path"); p != "" {
		if len(parts) > 1 {
			fileError(w, invalid("path names one file, but the form has several"))
			return
		}
		parts[0].path = p
	}
	written := make([]writeInfo, 0, len(parts))
	for _, part := range parts {
		if err := s.write(part); err != nil {
			fileError(w, err)
			return
		}
		p := run.Abs(part.path)
		written = append(written, writeInfo{Name: path.Base(p), Path: p, Type: "file"})
	}
	writeJSON(w, http.StatusOK, written)
}

// upload is one received file: where the client wants it and where it lies now.
type upload struct{ path, spool string }

// receive spools the form's "file" parts.
func receive(r *http.Request, spool string) ([]upload, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, invalid("Content-Type must be multipart/form-data")
	}
	form := multipart.NewReader(r.Body, params["boundary"])
	var ups []upload
	files, fields := 0, 0
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			return ups, nil
		}
		if err != nil {
			return nil, invalid("malformed multipart body")
		}
		name, filename, isFile := disposition(part.Header.Get("Content-Disposition"))
		if !isFile {
			if fields++; fields > maxFields {
				return nil, invalid(fmt.Sprintf("Too many fields. Maximum number of fields is %d.", maxFields))
			}
			if _, err := io.Copy(io.Discard, part); err != nil {
				return nil, invalid("malformed multipart body")
			}
			continue
		}
		if files++; files > maxFiles {
			return nil, invalid(fmt.Sprintf("Too many files. Maximum number of files is %d.", maxFiles))
		}
		at := filepath.Join(spool, fmt.Sprint(files))
		if err := save(part, at); err != nil {
			return nil, invalid("malformed multipart body")
		}
		if name == "file" {
			ups = append(ups, upload{path: filename, spool: at})
		}
	}
}

// disposition reads a part's name and file name. mime.ParseMediaType will not do: it refuses bytes above 0x7f, which every SDK sends
// for non-ASCII names, and Part.FileName cuts directories off.
func disposition(v string) (name, filename string, isFile bool) {
	_, rest, _ := strings.Cut(v, ";")
	for rest != "" {
		key, value, _ := strings.Cut(rest, "=")
		value, rest = quoted(value)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "name":
			name = value
		case "filename":
			filename, isFile = value, true
		case "filename*": // RFC 5987: charset'language'percent-encoded
			if p := strings.SplitN(value, "'", 3); len(p) == 3 {
				filename, isFile = unquote(p[2]), true
			}
		}
	}
	return name, filename, isFile
}

// quoted takes one parameter value and returns what follows the next semicolon.
func quoted(v string) (value, rest string) {
	v = strings.TrimLeft(v, " \t")
	if !strings.HasPrefix(v, `"`) {
		value, rest, _ = strings.Cut(v, ";")
		return strings.TrimSpace(value), rest
	}
	var b strings.Builder
	for i := 1; i < len(v); i++ {
		switch {
		case v[i] == '\\' && i+1 < len(v) && (v[i+1] == '"' || v[i+1] == '\\'):
			i++
			b.WriteByte(v[i])
		case v[i] == '"':
			_, rest, _ = strings.Cut(v[i+1:], ";")
			return strings.ReplaceAll(b.String(), "%22", `"`), rest // the WHATWG form encoding of a quote
		default:
			b.WriteByte(v[i])
		}
	}
	return b.String(), ""
}

func save(r io.Reader, at string) error {
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// write copies one spooled file to its place, creating parents and overwriting.
func (s *Sandbox) write(up upload) error {
	_, at, err := s.locate(up.path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(at.Host), 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return invalid("not a directory: " + path.Dir(run.Abs(up.path)))
		}
		return fsError(err, up.path)
	}
	if fi, err := os.Stat(at.Host); err == nil && !fi.Mode().IsRegular() {
		return invalid("not a regular file: " + run.Abs(up.path))
	}
	from, err := os.Open(up.spool)
	if err != nil {
		return fsError(err, up.path)
	}
	defer func() { _ = from.Close() }()
	if err := save(from, at.Host); err != nil {
		return fsError(err, up.path)
	}
	return nil
}
