package rock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// unwilling removes nothing for as long as it is told so.
type unwilling struct {
	*MemoryRecords
	refuses bool
}

func (u *unwilling) Del(ctx context.Context, keys ...string) error {
	if u.refuses {
		return errors.New("no")
	}
	return u.MemoryRecords.Del(ctx, keys...)
}

// While a record names a port, and for as long as a gateway may remember the record, what listens there must be the sandbox or nobody.
func TestAPortIsTheSandboxsUntilItsRecordIsForgotten(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*Sandbox, *unwilling) error
		left int // ports that are kept for good
	}{
		{"running", func(*Sandbox, *unwilling) error { return nil }, 1},
		{"crashed", func(s *Sandbox, _ *unwilling) error { s.Crash(); return nil }, 1},
		{"stopped, and may be started again", func(s *Sandbox, _ *unwilling) error { return s.Stop(Stopped) }, 1},
		{"deleted", func(s *Sandbox, _ *unwilling) error { return s.Stop(Deleted) }, 0},
		{"stopped, then deleted", func(s *Sandbox, _ *unwilling) error { return errors.Join(s.Stop(Stopped), s.Stop(Deleted)) }, 0},
		{"deleted, and its record stays", func(s *Sandbox, u *unwilling) error { u.refuses = true; return s.Stop(Deleted) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				records := &unwilling{MemoryRecords: NewMemoryRecords()}
				cluster, err := New(Options{TempDir: t.TempDir(), Records: records, Published: []int{8000}, ScanInterval: -1, ReconcileInterval: -1})
				if err != nil {
					t.Fatal(err)
				}
				s, _, err := cluster.admit(createRequest{templateID: "base", timeout: 300}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.start(); err != nil {
					t.Fatal(err)
				}
				if err := c.end(s, records); err != nil {
					t.Fatal(err)
				}
				kept := func() int {
					synctest.Wait()
					cluster.mu.Lock()
					defer cluster.mu.Unlock()
					return len(cluster.kept)
				}
				time.Sleep(portRest - time.Nanosecond)
				if n := kept(); n != 1 {
					t.Errorf("%d ports are kept before portRest has passed", n)
				}
				time.Sleep(time.Nanosecond)
				if n := kept(); n != c.left {
					t.Errorf("%d ports are kept after portRest, want %d", n, c.left)
				}
				if err := cluster.Close(); err != nil {
					t.Error(err)
				}
				if n := kept(); n != 0 {
					t.Errorf("%d ports are kept by a closed cluster", n)
				}
			})
		})
	}
}
