// Package envd is the double of the daemon inside an E2B sandbox: process.Process and filesystem.Filesystem over the Connect
// protocol, and the plain routes /health and /files. Commands really run and files really exist, below one root directory.
//
// It knows one sandbox and how its clients speak. Sandbox ids, routing, registries, ROCK's control plane and injected faults
// belong elsewhere, and nothing here may be linked into the production binary.
package envd

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/filesystempb/filesystempbconnect"
	"github.com/caddy-e2b/gateway/integration/envd/processpb/processpbconnect"
	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// Options say what sandbox to play.
type Options struct {
	// Box runs the commands and holds the files. It stays the caller's: Close kills only the commands started here.
	// Default: a box of its own, opened on Root with Env and closed by Close.
	Box *run.Box
	// Root is the machine's directory that becomes the sandbox's "/". Required without Box, ignored with it.
	Root string
	// Env is the environment of every command. Ignored with Box.
	Env map[string]string
	// AccessToken secures the sandbox: every request but /health must carry it in X-Access-Token, /files may instead be signed.
	// Default: none, everything is allowed.
	AccessToken string
}

// Handler serves one sandbox. The OS user that clients send in Authorization is accepted and ignored.
type Handler struct {
	tree  tree
	token accessToken
	mux   *http.ServeMux

	processes   *processService
	filesystems *filesystemService
	closing     context.Context
	cancel      context.CancelFunc
	ownBox      *run.Box
	once        sync.Once
}

var _ http.Handler = (*Handler)(nil)

// New opens a sandbox. The error is that of opening a box.
func New(o Options) (*Handler, error) {
	h := &Handler{token: accessToken(o.AccessToken), mux: http.NewServeMux()}
	box := o.Box
	if box == nil {
		var err error
		if box, err = run.Open(run.Options{Root: o.Root, Env: o.Env}); err != nil {
			return nil, err
		}
		h.ownBox = box
	}
	h.tree = tree{box}
	h.closing, h.cancel = context.WithCancel(context.Background())
	h.processes = &processService{box: box, closing: h.closing, commands: make(map[uint32]*command)}
	h.filesystems = &filesystemService{tree: h.tree, closing: h.closing, watchers: make(map[string]*keptWatcher)}

	// envd never compresses an answer, whatever the client accepts.
	plain := connect.WithCompression("gzip", nil, nil)
	h.mux.Handle(processpbconnect.NewProcessHandler(h.processes, plain))
	h.mux.Handle(filesystempbconnect.NewFilesystemHandler(h.filesystems, plain))
	h.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
	})
	h.mux.HandleFunc("GET /files", h.getFile)
	h.mux.HandleFunc("POST /files", h.postFiles)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, &httpError{http.StatusNotFound, errors.New("404 page not found")})
	})
	return h, nil
}

// ServeHTTP serves envd's port. After Close every request is cut, as by a machine that is gone.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.closing.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if r.Method == http.MethodOptions {
		allowCrossOrigin(w.Header())
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	if r.URL.Path != "/health" && r.URL.Path != "/files" && !h.token.allows(r) {
		writeError(w, &httpError{http.StatusUnauthorized, errUnauthorized})
		return
	}
	h.mux.ServeHTTP(w, r)
}

// allowCrossOrigin answers a browser's preflight: signed URLs are made for browsers.
func allowCrossOrigin(header http.Header) {
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Access-Control-Allow-Methods", "HEAD, GET, POST, PUT, PATCH, DELETE")
	header.Set("Access-Control-Allow-Headers", "*")
	header.Set("Access-Control-Max-Age", "7200")
}

// Close switches the sandbox off: open streams are cut, not ended, every command is killed, every watch ends. Files stay.
func (h *Handler) Close() error {
	var err error
	h.once.Do(func() {
		h.cancel()
		h.processes.close()
		h.filesystems.close()
		if h.ownBox != nil {
			err = h.ownBox.Close()
		}
	})
	return err
}

// In serves the sandbox of a deployment that has no envd of its own. One whose container has ended cuts every request, as a
// machine that is gone.
func In[S interface{ Box() (*run.Box, error) }](sandbox S) http.Handler {
	box, err := sandbox.Box()
	if err == nil {
		var h *Handler
		if h, err = New(Options{Box: box}); err == nil {
			return h
		}
	}
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}
