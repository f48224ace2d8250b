package envd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// errForeignHome is what "~name" gives: the double has one user.
var errForeignHome = errors.New("cannot expand user-specific home dir")

// tree is the file system of one sandbox as clients name it. A path of the machine never leaves this package.
type tree struct{ box *run.Box }

// abs makes an absolute, clean sandbox path of what a client sent: "" is the home directory, "~" and "~/x" expand,
// relative paths start at the home directory.
func (t tree) abs(p string) (string, error) {
	if strings.HasPrefix(p, "~") && p != "~" && !strings.HasPrefix(p, "~/") {
		return "", fmt.Errorf("failed to expand path '%s': %w", p, errForeignHome)
	}
	return run.Abs(p), nil
}

// host gives the machine's path of a sandbox path. A link at its end is not followed, the last elements may be missing.
func (t tree) host(p string) (string, error) {
	location, err := t.box.ResolveLink(p)
	return location.Host, err
}

// hostFollowed is host with a link at the end followed too.
func (t tree) hostFollowed(p string) (string, error) {
	location, err := t.box.Resolve(p)
	return location.Host, err
}

// reason is err without the machine's path in it: clients know sandbox paths only.
func reason(err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	if linkErr := (*os.LinkError)(nil); errors.As(err, &linkErr) {
		return linkErr.Err
	}
	return err
}
