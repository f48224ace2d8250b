package rock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-e2b/gateway/integration/rock/run"
)

// Limits of ListDir.
const (
	maxDepth   = 100
	maxEntries = 10_000
)

// entryInfo is filesystem.EntryInfo in the protobuf JSON mapping (64-bit size as a string).
type entryInfo struct {
	Name          string `json:"name"`
	Type          string `json:"type"`
	Path          string `json:"path"`
	Size          int64  `json:"size,string"`
	Mode          uint32 `json:"mode"`
	Permissions   string `json:"permissions"`
	Owner         string `json:"owner"`
	Group         string `json:"group"`
	ModifiedTime  string `json:"modifiedTime"`
	SymlinkTarget string `json:"symlinkTarget,omitempty"`
}

type pathRequest struct {
	Path string `json:"path"`
}

type listRequest struct {
	Path  string `json:"path"`
	Depth *int   `json:"depth"`
}

// files opens the sandbox's root: codeUnavailable when the rocklet cannot be reached.
func (s *Sandbox) files() (*run.Box, error) {
	if s.cluster.opt.Backend == OpenSandbox {
		return nil, &rpcError{codeUnavailable, "sandbox has no filesystem address"}
	}
	box, err := s.Box()
	if errors.Is(err, errDead) {
		return nil, &rpcError{codeUnavailable, unreachableFiles}
	}
	return box, err
}

// locate opens the root and resolves a client's path in it.
func (s *Sandbox) locate(p string) (*run.Box, run.Location, error) {
	if err := checkPath(p); err != nil {
		return nil, run.Location{}, err
	}
	box, err := s.files()
	if err != nil {
		return nil, run.Location{}, err
	}
	at, err := box.Resolve(p)
	if err != nil {
		return nil, run.Location{}, invalid("too many levels of symbolic links: " + run.Abs(p))
	}
	return box, at, nil
}

func checkPath(p string) error {
	if p == "" {
		return invalid("path must not be empty")
	}
	for i := range len(p) {
		if p[i] == 0 {
			return invalid("path must not contain NUL")
		}
	}
	return nil
}

// fsError turns an operating-system error into ROCK's; the message names the sandbox path, never the host's.
func fsError(err error, p string) error {
	p = run.Abs(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &rpcError{codeNotFound, "path not found: " + p}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &rpcError{codePermission, "permission denied: " + p}
	case errors.Is(err, syscall.ENOTDIR):
		return invalid("not a directory: " + p)
	case errors.Is(err, syscall.EISDIR):
		return invalid("is a directory: " + p)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return invalid("path is too long: " + p)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return &rpcError{codeInternal, errno.Error() + ": " + p}
	}
	return &rpcError{codeInternal, "filesystem error: " + p}
}

// makeDir creates parents too. An existing directory is already_exists; anything else in the way is an invalid argument.
func makeDir(s *Sandbox, req pathRequest) (any, error) {
	box, at, err := s.locate(req.Path)
	if err != nil {
		return nil, err
	}
	if fi, err := os.Stat(at.Host); err == nil {
		if fi.IsDir() {
			return nil, &rpcError{codeExists, "directory already exists: " + run.Abs(req.Path)}
		}
		return nil, invalid("path exists and is not a directory: " + run.Abs(req.Path))
	}
	if err := os.MkdirAll(at.Host, 0o755); err != nil {
		return nil, fsError(err, req.Path)
	}
	e, err := entry(box, run.Abs(req.Path))
	if err != nil {
		return nil, err
	}
	return map[string]any{"entry": e}, nil
}

func stat(s *Sandbox, req pathRequest) (any, error) {
	if err := checkPath(req.Path); err != nil {
		return nil, err
	}
	box, err := s.files()
	if err != nil {
		return nil, err
	}
	e, err := entry(box, run.Abs(req.Path))
	if err != nil {
		return nil, err
	}
	return map[string]any{"entry": e}, nil
}

// listDir walks to the depth asked for, without following links to directories.
func listDir(s *Sandbox, req listRequest) (any, error) {
	depth := 1
	if req.Depth != nil {
		depth = *req.Depth
	}
	if depth < 1 || depth > maxDepth {
		return nil, invalid(fmt.Sprintf("depth must be from 1 to %d", maxDepth))
	}
	box, at, err := s.locate(req.Path)
	if err != nil {
		return nil, err
	}
	if fi, err := os.Stat(at.Host); err != nil || !fi.IsDir() {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fsError(err, req.Path)
		}
		return nil, invalid("not a directory: " + run.Abs(req.Path))
	}
	entries := []entryInfo{}
	if err := walk(box, run.Abs(req.Path), depth, &entries); err != nil {
		return nil, err
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Path < entries[j].Path })
	return map[string]any{"entries": entries}, nil
}

func walk(box *run.Box, dir string, depth int, into *[]entryInfo) error {
	at, err := box.Resolve(dir)
	if err != nil {
		return fsError(err, dir)
	}
	children, err := os.ReadDir(at.Host)
	if err != nil {
		return fsError(err, dir)
	}
	for _, child := range children {
		p := path.Join(dir, child.Name())
		e, err := entry(box, p)
		var re *rpcError
		if errors.As(err, &re) && re.code == codeNotFound {
			continue // gone since, or a link that leads nowhere
		}
		if err != nil {
			return err
		}
		if len(*into) == maxEntries {
			return invalid(fmt.Sprintf("directory has more than %d entries", maxEntries))
		}
		*into = append(*into, e)
		if depth > 1 && child.IsDir() {
			if err := walk(box, p, depth-1, into); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry describes an absolute sandbox path. A link has its target's type and attributes, and the place it leads to.
func entry(box *run.Box, p string) (entryInfo, error) {
	link, err := box.ResolveLink(p)
	if err != nil {
		return entryInfo{}, fsError(err, p)
	}
	at, err := box.Resolve(p)
	if err != nil {
		return entryInfo{}, fsError(fs.ErrNotExist, p) // a loop leads nowhere
	}
	fi, err := os.Stat(at.Host)
	if err != nil {
		return entryInfo{}, fsError(err, p)
	}
	e := entryInfo{
		Name: path.Base(p), Path: p, Type: "FILE_TYPE_FILE", Size: fi.Size(), Mode: permissionBits(fi.Mode()),
		Permissions: permissionString(fi.Mode()), ModifiedTime: fi.ModTime().UTC().Format(time.RFC3339Nano),
	}
	if fi.IsDir() {
		e.Type = "FILE_TYPE_DIRECTORY"
	}
	if lfi, err := os.Lstat(link.Host); err == nil && lfi.Mode()&fs.ModeSymlink != 0 {
		e.SymlinkTarget = at.Sandbox
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		e.Owner, e.Group = owners.name(st.Uid), groups.name(st.Gid)
	}
	return e, nil
}

// permissionBits are the twelve bits of chmod.
func permissionBits(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// permissionString is the first column of ls -l.
func permissionString(m fs.FileMode) string {
	s := []byte("-rwxrwxrwx")
	switch {
	case m.IsDir():
		s[0] = 'd'
	case m&fs.ModeNamedPipe != 0:
		s[0] = 'p'
	case m&fs.ModeSocket != 0:
		s[0] = 's'
	case m&fs.ModeCharDevice != 0:
		s[0] = 'c'
	case m&fs.ModeDevice != 0:
		s[0] = 'b'
	}
	for i := range 9 {
		if m.Perm()&(1<<(8-i)) == 0 {
			s[1+i] = '-'
		}
	}
	for _, f := range []struct {
		flag   fs.FileMode
		at     int
		on, no byte
	}{{fs.ModeSetuid, 3, 's', 'S'}, {fs.ModeSetgid, 6, 's', 'S'}, {fs.ModeSticky, 9, 't', 'T'}} {
		if m&f.flag != 0 {
			if s[f.at] == 'x' {
				s[f.at] = f.on
			} else {
				s[f.at] = f.no
			}
		}
	}
	return string(s)
}

// names remembers look-ups of user and group names, which read a file each time.
type names struct {
	mu   sync.Mutex
	seen map[uint32]string
	look func(id string) (string, error)
}

var (
	owners = &names{seen: map[uint32]string{}, look: func(id string) (string, error) {
		u, err := user.LookupId(id)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	}}
	groups = &names{seen: map[uint32]string{}, look: func(id string) (string, error) {
		g, err := user.LookupGroupId(id)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	}}
)

// name falls back to the number.
func (n *names) name(id uint32) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s, ok := n.seen[id]; ok {
		return s
	}
	number := strconv.FormatUint(uint64(id), 10)
	s, err := n.look(number)
	if err != nil {
		s = number
	}
	n.seen[id] = s
	return s
}
