// Package version says which gateway this is: in a binary of its own, in a
// Caddy made with xcaddy, and in an image. It asks Go, which writes into each
// binary what it was built of, and only where Go cannot know who built it.
//
// It knows nothing of Caddy and of requests.
package version

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

const (
	gateway = "github.com/caddy-e2b/gateway"
	caddy   = "github.com/caddyserver/caddy/v2"
)

// The linker sets them (-ldflags "-X github.com/caddy-e2b/gateway/version.release=v1.2.3") where the sources
// have no repository, as in the build of an image: Go finds neither a tag nor a commit there.
var release, revision string

// Unknown is the version of what was built without a repository, and the
// revision then.
const Unknown = "unknown"

// Version is which gateway a binary is.
type Version struct {
	// Gateway is a tag of the repository ("v1.2.3"), what Go makes of a commit
	// that has none ("v1.2.4-0.20261202004033-9647fa7fb1ba"), or [Unknown].
	// It ends with "+dirty" when files differed from the commit.
	Gateway string `json:"gateway"`
	// Revision is the commit, or [Unknown]: of a module that xcaddy builds
	// in, the version is all there is.
	Revision string `json:"revision"`
	// Committed is when, in RFC 3339, or "".
	Committed string `json:"committed,omitempty"`
	// Caddy is the version of Caddy's module.
	Caddy string `json:"caddy"`
	// Go is the version of Go that built it.
	Go string `json:"go"`
}

// String is the version in one line.
func (v Version) String() string {
	return fmt.Sprintf("%s (revision %s, %s)", v.Gateway, v.Revision, v.Go)
}

// Running is that of this process.
var Running = sync.OnceValue(func() Version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return of(info, release, revision)
})

// of reads what Go has written, and what the linker was told.
func of(info *debug.BuildInfo, release, revision string) Version {
	v := Version{Caddy: cmp.Or(versionOf(info, caddy), Unknown), Go: info.GoVersion}
	settings := map[string]string{}
	// What Go says of a repository is about that of the main module, whose
	// part the gateway is not where xcaddy has built it.
	if info.Main.Path == gateway {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	v.Gateway = cmp.Or(release, versionOf(info, gateway), Unknown)
	v.Revision = cmp.Or(settings["vcs.revision"], revision, Unknown)
	v.Committed = settings["vcs.time"]
	if settings["vcs.modified"] == "true" && release != "" {
		v.Gateway += "+dirty" // Go's own version has it already
	}
	return v
}

// versionOf is that of a module which is linked in, or "" for that of a
// directory, whatever it was called when it took the module's place.
func versionOf(info *debug.BuildInfo, path string) string {
	all := append([]*debug.Module{&info.Main}, info.Deps...)
	i := slices.IndexFunc(all, func(m *debug.Module) bool { return m.Path == path })
	if i < 0 {
		return ""
	}
	m := all[i]
	if m.Replace != nil {
		m = m.Replace
	}
	if m.Version == "(devel)" {
		return ""
	}
	return m.Version
}
