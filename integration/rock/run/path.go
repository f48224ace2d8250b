package run

import (
	"os"
	"path"
	"strings"
	"syscall"
)

// Location is one place in a sandbox, under both of its names.
type Location struct {
	// Host is the path to give to the os package. Its prefix can change with the isolation mode; never show it to a client.
	Host string
	// Sandbox is the absolute path as a client knows it, with symbolic links resolved.
	Sandbox string
}

// Abs applies the sandbox's path rules and touches no file: relative paths are below Home, "~" and "~/x" mean Home, "." and ".."
// are normalised and never climb above "/".
func Abs(p string) string {
	switch {
	case p == "~":
		return Home
	case strings.HasPrefix(p, "~/"):
		return path.Join(Home, p[2:])
	case strings.HasPrefix(p, "/"):
		return path.Clean(p)
	default:
		return path.Join(Home, p)
	}
}

// Resolve finds where p leads, following every symbolic link as a process chrooted to the sandbox would. A path whose tail does not
// exist resolves too. The only error is ELOOP (*os.PathError).
func (b *Box) Resolve(p string) (Location, error) { return b.resolve(p, true) }

// ResolveLink is Resolve but does not follow p's last component.
func (b *Box) ResolveLink(p string) (Location, error) { return b.resolve(p, false) }

// maxLinks is Linux's own limit.
const maxLinks = 40

func (b *Box) resolve(p string, followLast bool) (Location, error) {
	todo := split(Abs(p))
	at, links := "", 0
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			if at = path.Dir(at); at == "/" || at == "." {
				at = ""
			}
			continue
		}
		next := at + "/" + name
		fi, err := os.Lstat(b.base + next)
		if err != nil {
			// Missing, or its parent is a file: the caller's own operation reports which.
			rest := path.Clean("/" + strings.Join(append([]string{next}, todo...), "/"))
			return Location{Host: b.base + rest, Sandbox: rest}, nil
		}
		if fi.Mode()&os.ModeSymlink == 0 || (len(todo) == 0 && !followLast) {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return Location{}, &os.PathError{Op: "resolve", Path: Abs(p), Err: syscall.ELOOP}
		}
		target, err := os.Readlink(b.base + next)
		if err != nil {
			return Location{}, &os.PathError{Op: "resolve", Path: Abs(p), Err: syscall.ENOENT}
		}
		if strings.HasPrefix(target, "/") {
			at = ""
		}
		todo = append(split(target), todo...)
	}
	if at == "" {
		return Location{Host: b.base + "/", Sandbox: "/"}, nil
	}
	return Location{Host: b.base + at, Sandbox: at}, nil
}

// split cuts a path into its components without the empty ones and ".", keeping "..".
func split(p string) []string {
	var parts []string
	for _, s := range strings.Split(p, "/") {
		if s != "" && s != "." {
			parts = append(parts, s)
		}
	}
	return parts
}
