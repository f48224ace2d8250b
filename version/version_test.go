package version

import (
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	own := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.27.3", Settings: settings, Main: debug.Module{Path: gateway, Version: version},
			Deps: []*debug.Module{{Path: caddy, Version: "v2.11.9"}}}
	}
	built := func(m *debug.Module) *debug.BuildInfo { // by xcaddy, in a directory of somebody's repository
		return &debug.BuildInfo{GoVersion: "go1.27.3", Main: debug.Module{Path: "caddy", Version: "v9.9.9"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "theirs"}, {Key: "vcs.modified", Value: "true"}},
			Deps:     []*debug.Module{{Path: caddy, Version: "v2.11.9"}, m}}
	}
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}
	when := debug.BuildSetting{Key: "vcs.time", Value: "2026-12-02T00:00:00Z"}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for name, c := range map[string]struct {
		info              *debug.BuildInfo
		release, revision string
		want              Version
	}{
		"a tag":                    {info: own("v1.2.3", commit, when), want: Version{Gateway: "v1.2.3", Revision: "abc", Committed: "2026-12-02T00:00:00Z"}},
		"a dirty tree":             {info: own("v1.2.3+dirty", commit, changed), want: Version{Gateway: "v1.2.3+dirty", Revision: "abc"}},
		"a commit after a tag":     {info: own("v1.2.4-0.20261202004033-abc", commit), want: Version{Gateway: "v1.2.4-0.20261202004033-abc", Revision: "abc"}},
		"an image":                 {info: own("(devel)"), release: "v1.2.3", revision: "def", want: Version{Gateway: "v1.2.3", Revision: "def"}},
		"a name for a dirty tree":  {info: own("v1.2.4-0.2026+dirty", commit, changed), release: "v2.0.0", revision: "def", want: Version{Gateway: "v2.0.0+dirty", Revision: "abc"}},
		"no repository":            {info: own("(devel)"), want: Version{Gateway: Unknown, Revision: Unknown}},
		"xcaddy with a version":    {info: built(&debug.Module{Path: gateway, Version: "v1.2.3"}), want: Version{Gateway: "v1.2.3", Revision: Unknown}},
		"xcaddy with a directory":  {info: built(&debug.Module{Path: gateway, Version: "v0.0.0", Replace: &debug.Module{Path: "/src"}}), want: Version{Gateway: Unknown, Revision: Unknown}},
		"xcaddy with another fork": {info: built(&debug.Module{Path: gateway, Version: "v1.2.3", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.2.4"}}), want: Version{Gateway: "v1.2.4", Revision: Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Caddy, c.want.Go = "v2.11.9", "go1.27.3"
			if got := of(c.info, c.release, c.revision); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
