package chaos

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/caddy-e2b/gateway/integration/ownnet"
)

// TestMain runs the suite in a network namespace of its own. Only the dark worlds need one.
func TestMain(m *testing.M) {
	flag.Parse()
	// Where Debian has nft, which the PATH of an ordinary user leaves out. install.sh looks there, too.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		panic(err)
	}
	// Worlds wait most of the time: all of them at once are no more than two cores can do.
	if err := flag.Set("test.parallel", strconv.Itoa(len(kinds))); err != nil {
		panic(err)
	}
	dark := slices.ContainsFunc(slices.Collect(flatten(plans())), func(p plan) bool { return inTheDark(p.kind) })
	code, err := ownnet.Run(m, func() error {
		if !dark {
			return nil
		}
		out, err := exec.Command("nft", rules).CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft: %w: %s\n`make chaos` installs what is needed", err, out)
		}
		return nil
	})
	if errors.Is(err, ownnet.ErrNotAllowed) && !dark {
		code, err = m.Run(), nil
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}
