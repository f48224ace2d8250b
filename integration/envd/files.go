package envd

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// writtenFile is one item of the answer to an upload.
type writtenFile struct {
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Path     string            `json:"path"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// httpError is an answer of the plain HTTP routes: a status, and what to say.
type httpError struct {
	status int
	err    error
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

func fail(status int, format string, args ...any) error {
	return &httpError{status: status, err: fmt.Errorf(format, args...)}
}

// writeError renders envd's JSON error: {"code": <status>, "message": <text>}. What is not an httpError is a 500.
func writeError(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if known := (*httpError)(nil); errors.As(err, &known) {
		status = known.status
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": status, "message": err.Error()})
}

// getFile is GET /files?path=: the bytes of one file, gzipped when the client accepts that and asks for no range.
func (h *Handler) getFile(w http.ResponseWriter, r *http.Request) {
	if err := h.serveFile(w, r); err != nil {
		writeError(w, err)
	}
}

func (h *Handler) serveFile(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if err := h.token.allowsFile(r, query, readOperation, time.Now()); err != nil {
		return &httpError{http.StatusUnauthorized, err}
	}
	p, err := h.tree.abs(query.Get("path"))
	if err != nil {
		return &httpError{http.StatusBadRequest, err}
	}
	host, err := h.tree.hostFollowed(p)
	if err != nil {
		return fail(http.StatusInternalServerError, "error checking if path exists '%s': %w", p, reason(err))
	}
	info, err := os.Stat(host)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(http.StatusNotFound, "path '%s' does not exist", p)
	case err != nil:
		return fail(http.StatusInternalServerError, "error checking if path exists '%s': %w", p, reason(err))
	case info.IsDir():
		return fail(http.StatusBadRequest, "path '%s' is a directory", p)
	case !info.Mode().IsRegular():
		return fail(http.StatusBadRequest, "path '%s' is not a regular file", p)
	}
	file, err := os.Open(host)
	if err != nil {
		return fail(http.StatusInternalServerError, "error opening file '%s': %w", p, reason(err))
	}
	defer file.Close()
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": path.Base(p)}))
	w.Header().Set("Vary", "Accept-Encoding")
	if !acceptsGzip(r.Header) || partial(r.Header) {
		http.ServeContent(w, r, p, info.ModTime(), file)
		return nil
	}
	kind := mime.TypeByExtension(path.Ext(p))
	if kind == "" {
		kind = "application/octet-stream"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Encoding", "gzip")
	zip := gzip.NewWriter(w)
	if _, err := io.Copy(zip, file); err != nil {
		panic(http.ErrAbortHandler) // the status is out; only a cut tells the truth
	}
	if err := zip.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// postFiles is POST /files: multipart parts named "file", whose file name is the path unless the query has one, or one raw
// body with the path in the query. Either may be gzipped as a whole.
func (h *Handler) postFiles(w http.ResponseWriter, r *http.Request) {
	written, err := h.receiveFiles(r)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(written)
}

func (h *Handler) receiveFiles(r *http.Request) ([]writtenFile, error) {
	query := r.URL.Query()
	if err := h.token.allowsFile(r, query, writeOperation, time.Now()); err != nil {
		return nil, &httpError{http.StatusUnauthorized, err}
	}
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, fail(http.StatusBadRequest, "error decompressing request body: %w", err)
		}
		r.Body = unzipped
	default:
		return nil, fail(http.StatusBadRequest, "error decompressing request body: unsupported Content-Encoding: %s", encoding)
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case kind == "application/octet-stream":
		if !query.Has("path") {
			return nil, fail(http.StatusBadRequest, "path query parameter is required for raw body upload")
		}
		file, err := h.store(r, query.Get("path"), r.Body)
		if err != nil {
			return nil, err
		}
		return []writtenFile{file}, nil
	case strings.HasPrefix(kind, "multipart/"):
		return h.receiveParts(r, query)
	}
	return nil, fail(http.StatusBadRequest,
		"unsupported content type: %s, expected multipart/form-data or application/octet-stream", r.Header.Get("Content-Type"))
}

func (h *Handler) receiveParts(r *http.Request, query url.Values) ([]writtenFile, error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, fail(http.StatusInternalServerError, "error parsing multipart form: %w", err)
	}
	written := []writtenFile{}
	seen := make(map[string]bool)
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return written, nil
		}
		if err != nil {
			return nil, fail(http.StatusInternalServerError, "error reading form: %w", err)
		}
		if part.FormName() != "file" {
			continue
		}
		requested := query.Get("path")
		if !query.Has("path") {
			// Part.FileName would cut the directories off.
			_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			if err != nil || params["filename"] == "" {
				return nil, fail(http.StatusBadRequest, "error getting multipart custom part file name: filename not found in Content-Disposition header")
			}
			requested = params["filename"]
		}
		if p, _ := h.tree.abs(requested); seen[p] {
			return nil, fail(http.StatusBadRequest,
				"you cannot upload multiple files to the same path '%s' in one upload request, only the first specified file was uploaded", p)
		}
		file, err := h.store(r, requested, part)
		if err != nil {
			return nil, err
		}
		seen[file.Path] = true
		written = append(written, file)
	}
}

// store writes one file, making missing directories and replacing what was there.
func (h *Handler) store(r *http.Request, requested string, body io.Reader) (writtenFile, error) {
	p, err := h.tree.abs(requested)
	if err != nil {
		return writtenFile{}, fail(http.StatusBadRequest, "error resolving path: %w", err)
	}
	host, err := h.tree.hostFollowed(p)
	if err != nil {
		return writtenFile{}, fail(http.StatusInternalServerError, "error getting file info: %w", reason(err))
	}
	if err := makeDirs(filepath.Dir(host)); err != nil {
		return writtenFile{}, fail(http.StatusInternalServerError, "error ensuring directories: %w", reason(err))
	}
	if info, err := os.Stat(host); err == nil && info.IsDir() {
		return writtenFile{}, fail(http.StatusBadRequest, "path is a directory: %s", p)
	}
	file, err := os.OpenFile(host, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return writtenFile{}, storageError("error opening file", err)
	}
	_, err = io.Copy(file, body)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return writtenFile{}, storageError("error writing file", err)
	}
	metadata := metadataOf(r.Header)
	if err := writeMetadata(host, metadata); err != nil {
		return writtenFile{}, storageError("error writing metadata", err)
	}
	return writtenFile{Name: path.Base(p), Type: "file", Path: p, Metadata: metadata}, nil
}

// storageError is 507 for a full disk, 500 for the rest.
func storageError(doing string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fail(http.StatusInsufficientStorage, "not enough disk space available")
	}
	return fail(http.StatusInternalServerError, "%s: %w", doing, reason(err))
}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3): gzip named with a weight above 0.
func acceptsGzip(header http.Header) bool {
	for _, item := range strings.Split(strings.Join(header.Values("Accept-Encoding"), ","), ",") {
		coding, params, _ := strings.Cut(item, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		weight, found := strings.CutPrefix(strings.TrimSpace(params), "q=")
		if !found {
			return true
		}
		q, err := strconv.ParseFloat(weight, 64)
		return err == nil && q > 0
	}
	return false
}

// partial reports whether the answer depends on ranges or validators, which belong to the plain bytes.
func partial(header http.Header) bool {
	for _, name := range []string{"Range", "If-Range", "If-Modified-Since", "If-None-Match"} {
		if header.Get(name) != "" {
			return true
		}
	}
	return false
}
