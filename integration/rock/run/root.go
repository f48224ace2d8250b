package run

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// system lists the top-level directories that commands take from the host. Those of devices are mounted as they are, the others
// read-only.
var system = []struct {
	name    string
	devices bool
}{
	{"usr", false}, {"bin", false}, {"sbin", false}, {"lib", false}, {"lib32", false}, {"lib64", false}, {"libx32", false},
	{"etc", false}, {"opt", false}, {"dev", true}, {"proc", true}, {"sys", true},
}

// furnish creates the directories that every Linux sandbox has. System directories become empty mount points (or the same symbolic
// links as on a merged-/usr host), never copies.
func furnish(root string) error {
	for _, d := range []struct {
		name string
		mode os.FileMode
	}{
		{"", 0o755}, {"home", 0o755}, {"home/user", 0o755}, {"root", 0o700}, {"run", 0o755}, {"var", 0o755},
		{"tmp", 0o777 | os.ModeSticky}, {"var/tmp", 0o777 | os.ModeSticky},
	} {
		p := filepath.Join(root, d.name)
		if err := os.MkdirAll(p, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(p, d.mode); err != nil { // MkdirAll obeys the umask
			return err
		}
	}
	for _, s := range system {
		fi, err := os.Lstat("/" + s.name)
		if err != nil {
			continue // this host has no such directory
		}
		p := filepath.Join(root, s.name)
		if fi.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink("/" + s.name)
			if err != nil {
				return err
			}
			if err := os.Symlink(target, p); err != nil && !os.IsExist(err) {
				return err
			}
			continue
		}
		if err := os.Mkdir(p, 0o755); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// enterNamespace moves the calling thread into a mount namespace of its own whose root is root. The caller has locked the thread.
func enterNamespace(root string) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	// Without this the binds below would propagate to the host, and deleting the root would delete the host's /usr.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, s := range system {
		from, to := "/"+s.name, filepath.Join(root, s.name)
		if fi, err := os.Lstat(from); err != nil || !fi.IsDir() {
			continue
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind %s: %w", from, err)
		}
		if s.devices {
			continue
		}
		if err := readOnly(to); err != nil {
			return fmt.Errorf("make %s read-only: %w", from, err)
		}
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return unix.Chdir("/")
}

// readOnly remounts one bind mount, keeping the restrictions it already has (the kernel refuses to drop some of them).
func readOnly(mount string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(mount, &st); err != nil {
		return err
	}
	keep := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	return unix.Mount("", mount, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|keep, "")
}

// userScript builds the mounts inside a fresh user and mount namespace and becomes the command. Arguments: mount, chroot, root, working
// directory, command...
const userScript = `set -e
mount=$1 chroot=$2 root=$3 dir=$4
shift 4
"$mount" --make-rprivate /
for n in usr bin sbin lib lib32 lib64 libx32 etc opt dev proc sys; do
	if [ -d "/$n" ] && [ ! -L "/$n" ]; then "$mount" --rbind "/$n" "$root/$n"; fi
done
exec "$chroot" "$root" /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$dir" "$@"`

// inUserNamespace rewrites cmd so that it starts inside the namespaces.
func inUserNamespace(cmd *exec.Cmd, root, dir string) error {
	mount, err := lookTool("mount")
	if err != nil {
		return err
	}
	chroot, err := lookTool("chroot")
	if err != nil {
		return err
	}
	cmd.Args = append([]string{"sh", "-c", userScript, "sh", mount, chroot, root, dir, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	return nil
}

func lookTool(name string) (string, error) {
	for _, dir := range []string{"/usr/bin", "/usr/sbin", "/bin", "/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

func probeUserNamespace(root string) error {
	cmd := exec.Command("/bin/sh", "-c", "true")
	if err := inUserNamespace(cmd, root, "/"); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// killStragglers kills every process of this sandbox that /proc shows, until a whole look finds none: a process may fork while the list
// is read. Going by remembered process groups instead could kill strangers, because the kernel uses ids again.
func (b *Box) killStragglers() {
	const looks = 20 // what outruns this many is a fork bomb
	for range looks {
		found := false
		for _, pid := range b.stragglers() {
			found = unix.Kill(pid, unix.SIGKILL) == nil || found
		}
		if !found {
			return
		}
	}
}

func (b *Box) stragglers() []int {
	root, err := os.Stat(b.root)
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if b.isolation == None {
			if b.started("/proc/" + e.Name()) {
				pids = append(pids, pid)
			}
		} else if fi, err := os.Stat("/proc/" + e.Name() + "/root"); err == nil && os.SameFile(fi, root) { // nobody else has this root
			pids = append(pids, pid)
		}
	}
	return pids
}

// started tells whether the process comes from a command of this box, by what it inherited: the working directory below the root or the
// environment. Both are asked, because a command may change its directory and has no environment to show in the middle of an exec.
func (b *Box) started(proc string) bool {
	if dir, err := os.Readlink(proc + "/cwd"); err == nil && (dir == b.root || strings.HasPrefix(dir, b.root+"/")) {
		return true
	}
	env, err := os.ReadFile(proc + "/environ")
	return err == nil && b.gave(string(env))
}

// gave tells whether an environment (NUL-terminated entries) has one of this root's own values.
func (b *Box) gave(env string) bool {
	for _, v := range strings.Split(env, "\x00") {
		if v == "HOME="+b.root+Home || v == "TMPDIR="+b.root+"/tmp" {
			return true
		}
	}
	return false
}

// Remove deletes a sandbox root after its Box was closed. It refuses when anything is mounted below root, because a recursive delete
// would then reach the host's files.
func Remove(root string) error {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return fmt.Errorf("run: remove %s: %w", root, err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) > 4 && strings.HasPrefix(fields[4], filepath.Clean(root)+"/") {
			return fmt.Errorf("run: remove %s: %s is mounted below it", root, fields[4])
		}
	}
	return os.RemoveAll(root)
}
