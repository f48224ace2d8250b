package envd

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path"
	"strconv"
	"syscall"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/caddy-e2b/gateway/integration/envd/filesystempb"
)

// sandboxUser is the one OS user of the double: what belongs to the test's own user belongs to it.
const sandboxUser = "user"

// entry describes what is at an absolute sandbox path. A link has the type of what it leads to; one that leads nowhere has
// the type symlink. fs.ErrNotExist when there is nothing.
func (t tree) entry(p string) (*filesystempb.EntryInfo, error) {
	host, err := t.host(p)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(host)
	if err != nil {
		return nil, err
	}
	owner, group := ownership(info)
	e := &filesystempb.EntryInfo{
		Name:         path.Base(p),
		Type:         fileType(info.Mode()),
		Path:         p,
		Size:         info.Size(),
		Mode:         uint32(info.Mode().Perm()),
		Permissions:  info.Mode().String(),
		Owner:        owner,
		Group:        group,
		ModifiedTime: timestamppb.New(info.ModTime()),
		Metadata:     readMetadata(host),
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		t.describeLink(e, host)
	}
	return e, nil
}

// describeLink fills in where a link leads: the final target's path and type, or the link's own text when there is none.
func (t tree) describeLink(e *filesystempb.EntryInfo, host string) {
	target, err := t.box.Resolve(e.Path)
	if err == nil {
		if info, statErr := os.Lstat(target.Host); statErr == nil {
			e.Type = fileType(info.Mode())
			e.SymlinkTarget = &target.Sandbox
			return
		}
	}
	if text, err := os.Readlink(host); err == nil {
		e.SymlinkTarget = &text
	}
}

func fileType(mode fs.FileMode) filesystempb.FileType {
	switch {
	case mode.IsRegular():
		return filesystempb.FileType_FILE_TYPE_FILE
	case mode.IsDir():
		return filesystempb.FileType_FILE_TYPE_DIRECTORY
	case mode&fs.ModeSymlink != 0:
		return filesystempb.FileType_FILE_TYPE_SYMLINK
	}
	return filesystempb.FileType_FILE_TYPE_UNSPECIFIED
}

// ownership names owner and group, by number where they have no name.
func ownership(info fs.FileInfo) (owner, group string) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return sandboxUser, sandboxUser
	}
	owner, group = strconv.Itoa(int(stat.Uid)), strconv.Itoa(int(stat.Gid))
	if int(stat.Uid) == os.Geteuid() {
		owner = sandboxUser
	} else if u, err := user.LookupId(owner); err == nil {
		owner = u.Username
	}
	if int(stat.Gid) == os.Getegid() {
		group = sandboxUser
	} else if g, err := user.LookupGroupId(group); err == nil {
		group = g.Name
	}
	return owner, group
}

// makeDirs makes a directory of the machine and its missing parents.
// ENOTDIR when something on the way is not a directory.
func makeDirs(host string) error {
	err := os.MkdirAll(host, 0o755)
	if errors.Is(err, syscall.ENOTDIR) {
		return errors.New("path is a file")
	}
	return err
}
