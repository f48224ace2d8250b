package handlers

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

// A request is let in by its head, and a small body is read before the request
// goes on. A client that holds the body back must not outlive by that what let it
// in: its key may be taken back meanwhile, and the sandbox's id become another
// one's. So what was found out is found out again after such a body.

// shortWait is how long a body may take without anybody asking again.
const shortWait = time.Second

// readHeld reads the body of a control-plane call. It takes as long as one may
// that owes to read, and the pause that the server allows within a body.
func (g *Gateway) readHeld(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body := io.Reader(http.MaxBytesReader(w, r.Body, g.opt.MaxControlBody))
	if g.opt.ClientStall > 0 {
		body = &impatient{body, time.Now().Add(g.opt.ClientStall)}
	}
	return io.ReadAll(body)
}

var errHeld = errors.New("the request body took too long")

// impatient is a reader that fails from a moment on.
type impatient struct {
	io.Reader
	until time.Time
}

func (i *impatient) Read(p []byte) (int, error) {
	if time.Now().After(i.until) {
		return 0, errHeld
	}
	return i.Reader.Read(p)
}

// admitAgain finds out again whether the call may be made, and where its sandbox
// is.
func (c *dataCall) admitAgain() *cause.Failure {
	shown, f, err := c.g.examine(c.r, c.out.Operation, c.target)
	if f.Cause == cause.OK {
		c.route, c.out.Lookup, f, err = c.g.lookup(c.r.Context(), shown, c.target.SandboxID)
	}
	if f.Cause != cause.OK {
		c.out.Err = err
		return &f
	}
	if c.cluster = c.g.clusters[c.route.Cluster]; c.cluster == nil {
		c.out.Err = errUnknownCluster
		return &cause.Failure{Cause: cause.Internal}
	}
	c.out.Cluster = c.route.Cluster
	return nil
}
