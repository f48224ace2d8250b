package envd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/filesystempb"
	"github.com/caddy-e2b/gateway/integration/envd/filesystempb/filesystempbconnect"
)

// filesystemService is filesystem.Filesystem over one tree. Its methods answer with Connect errors whose codes and wording
// are envd's: not_found for a missing path, already_exists for a directory made twice, invalid_argument for the wrong kind of
// file, internal for the rest.
type filesystemService struct {
	tree tree
	// closing ends every stream and watcher.
	closing context.Context

	mu       sync.Mutex
	watchers map[string]*keptWatcher
}

var _ filesystempbconnect.FilesystemHandler = (*filesystemService)(nil)

// Stat describes a path; a link is not followed.
func (s *filesystemService) Stat(_ context.Context, req *connect.Request[filesystempb.StatRequest]) (*connect.Response[filesystempb.StatResponse], error) {
	p, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	e, err := s.entry(p)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&filesystempb.StatResponse{Entry: e}), nil
}

// MakeDir makes a directory and its parents.
func (s *filesystemService) MakeDir(_ context.Context, req *connect.Request[filesystempb.MakeDirRequest]) (*connect.Response[filesystempb.MakeDirResponse], error) {
	p, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	host, err := s.tree.hostFollowed(p)
	if err != nil {
		return nil, internal("error getting file info", err)
	}
	info, err := os.Stat(host)
	switch {
	case err == nil && info.IsDir():
		return nil, connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("directory already exists: %s", p))
	case err == nil:
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("path already exists but it is not a directory: %s", p))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, internal("error getting file info", err)
	}
	if err := makeDirs(host); err != nil {
		return nil, internal("failed to create directory", err)
	}
	e, err := s.entry(p)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&filesystempb.MakeDirResponse{Entry: e}), nil
}

// Move renames source to destination, making the destination's missing parents and replacing a file that is there.
func (s *filesystemService) Move(_ context.Context, req *connect.Request[filesystempb.MoveRequest]) (*connect.Response[filesystempb.MoveResponse], error) {
	source, err := s.path(req.Msg.GetSource())
	if err != nil {
		return nil, err
	}
	destination, err := s.path(req.Msg.GetDestination())
	if err != nil {
		return nil, err
	}
	from, err := s.tree.host(source)
	if err != nil {
		return nil, internal("error renaming", err)
	}
	to, err := s.tree.host(destination)
	if err != nil {
		return nil, internal("error renaming", err)
	}
	if err := makeDirs(filepath.Dir(to)); err != nil {
		return nil, internal("failed to create directory", err)
	}
	if err := os.Rename(from, to); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("source file not found: %s", source))
		}
		return nil, internal("error renaming", err)
	}
	e, err := s.entry(destination)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&filesystempb.MoveResponse{Entry: e}), nil
}

// ListDir lists a directory down to the asked depth, parents before children, by name. Links inside it are not entered.
func (s *filesystemService) ListDir(_ context.Context, req *connect.Request[filesystempb.ListDirRequest]) (*connect.Response[filesystempb.ListDirResponse], error) {
	p, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	host, err := s.directory(p)
	if err != nil {
		return nil, err
	}
	depth := max(int(req.Msg.GetDepth()), 1)
	resp := &filesystempb.ListDirResponse{}
	host = strings.TrimSuffix(host, "/") + "/"
	err = filepath.WalkDir(host, func(at string, d fs.DirEntry, err error) error {
		if at == host {
			return err
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went away while we were walking
		}
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(at, host)
		e, err := s.tree.entry(path.Join(p, rel))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		resp.Entries = append(resp.Entries, e)
		if d.IsDir() && strings.Count(rel, "/")+1 >= depth {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, internal("error reading directory "+p, err)
	}
	return connect.NewResponse(resp), nil
}

// Remove removes a file, a link or a tree. Nothing there is success.
func (s *filesystemService) Remove(_ context.Context, req *connect.Request[filesystempb.RemoveRequest]) (*connect.Response[filesystempb.RemoveResponse], error) {
	p, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	host, err := s.tree.host(p)
	if err != nil {
		return nil, internal("error removing file or directory", err)
	}
	if s.foreign(host) {
		return nil, internal("error removing file or directory", syscall.EBUSY)
	}
	if err := os.RemoveAll(host); err != nil {
		return nil, internal("error removing file or directory", err)
	}
	return connect.NewResponse(&filesystempb.RemoveResponse{}), nil
}

// foreign reports whether a path of the machine is the sandbox's root or lies on another device than the root does: system
// directories are mounted into the sandbox from the machine, and removing a tree there would reach the machine's own files.
func (s *filesystemService) foreign(host string) bool {
	root, err := s.tree.host("/")
	if err != nil {
		return true
	}
	var rootStat, stat syscall.Stat_t
	if syscall.Stat(root, &rootStat) != nil || syscall.Lstat(host, &stat) != nil {
		return false
	}
	return stat.Dev != rootStat.Dev || stat.Ino == rootStat.Ino
}

func (s *filesystemService) path(p string) (string, error) {
	abs, err := s.tree.abs(p)
	if err != nil {
		return "", connect.NewError(connect.CodeInvalidArgument, err)
	}
	return abs, nil
}

func (s *filesystemService) entry(p string) (*filesystempb.EntryInfo, error) {
	e, err := s.tree.entry(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("file not found: %s", p))
	}
	if err != nil {
		return nil, internal("error getting file info", err)
	}
	return e, nil
}

// directory gives the machine's path of an existing directory, links followed.
func (s *filesystemService) directory(p string) (string, error) {
	host, err := s.tree.hostFollowed(p)
	if errors.Is(err, syscall.ELOOP) {
		return "", connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("cyclic symlink or too many links at %q", p))
	}
	if err != nil {
		return "", internal("error resolving symlink", err)
	}
	info, err := os.Stat(host)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", connect.NewError(connect.CodeNotFound, fmt.Errorf("path not found: %s", p))
	case err != nil:
		return "", internal("error getting file info", err)
	case !info.IsDir():
		return "", connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("path is not a directory: %s", p))
	}
	return host, nil
}

func internal(doing string, err error) error {
	return connect.NewError(connect.CodeInternal, fmt.Errorf("%s: %w", doing, reason(err)))
}
