package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cores are the two processors that a run uses: one for contestants, and one for
// everything else.
type cores struct{ contestant, rest int }

// processors are those that this process may use.
func processors(tb testing.TB) (found []int) {
	tb.Helper()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		tb.Fatal(err)
	}
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			found = append(found, cpu)
		}
	}
	return found
}

// takeCores moves this process to the second of the processors that it may use.
func takeCores(tb testing.TB) cores {
	tb.Helper()
	found := processors(tb)
	if len(found) < 2 {
		tb.Fatalf("two processors are wanted, and %d may be used", len(found))
	}
	c := cores{contestant: found[0], rest: found[1]}
	moveTo(tb, c.rest)
	runtime.GOMAXPROCS(1)
	return c
}

// moveTo moves this process to a core.
func moveTo(tb testing.TB, core int) {
	tb.Helper()
	// A thread inherits from the one that makes it: after all that there are,
	// all that come.
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		tb.Fatal(err)
	}
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			bind(tb, id, core)
		}
	}
}

// join moves the generator and the upstream to the contestants' core until leave is called, for what is measured in
// time. A message from one core to the other waits until that has woken up, which in a virtual machine takes as long
// as a call, and at the host's discretion thirty times that.
func (s *scene) join() (leave func()) {
	s.Helper()
	moveTo(s, s.cores.contestant)
	runtime.GOMAXPROCS(2) // one is for whoever sleeps, see atPace
	return func() {
		moveTo(s, s.cores.rest)
		runtime.GOMAXPROCS(1)
	}
}

// keepAwake keeps processors from sleeping while they have nothing to do, until the run is
// over, if it may: it asks the kernel for no latency, see its documentation of PM QoS. One that
// sleeps in a virtual machine is the host's, and comes back when the host likes.
func keepAwake(tb testing.TB) (kept bool) {
	tb.Helper()
	f, err := os.OpenFile("/dev/cpu_dma_latency", os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	tb.Cleanup(func() { f.Close() })
	_, err = f.Write(make([]byte, 4)) // microseconds, for as long as it is open
	return err == nil
}

// on calls start, and the processes that it starts stay on the given core: Go's
// runtime, nginx and HAProxy find one processor and no more.
func on(tb testing.TB, core int, start func()) {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		tb.Fatal(err)
	}
	bind(tb, 0, core)
	defer func() {
		if err := unix.SchedSetaffinity(0, &before); err != nil {
			tb.Error(err)
		}
	}()
	start()
}

// bind binds a thread to a core; 0 is the calling one.
func bind(tb testing.TB, thread, core int) {
	tb.Helper()
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(thread, &set); err != nil {
		tb.Fatal(fmt.Errorf("binding thread %d to processor %d: %w", thread, core, err))
	}
}

// processorTime is what a process has spent on processors so far, in user and in
// system mode, by all threads that it has or had.
func processorTime(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	// The clock of a process: clock_getcpuclockid(3), in the kernel's
	// posix-timers the complement of the pid with CPUCLOCK_SCHED.
	const scheduler = 2
	clock := int32(^pid<<3 | scheduler)
	var now unix.Timespec
	if err := unix.ClockGettime(clock, &now); err != nil {
		tb.Fatal(fmt.Errorf("the clock of process %d: %w", pid, err))
	}
	return time.Duration(now.Nano())
}

const (
	// spare is the share of a core that its host may take while a latency is measured: the
	// slowest hundredth is looked at, and is the host's if it takes as much.
	spare = 0.005
	// plays is how often a turn is played for that at most.
	plays = 4
)

// undisturbed plays a turn of the contestants' core until its host leaves that alone, and
// returns what came of the one during which it took least. More than is spare is counted.
func undisturbed[T any](s *scene, length time.Duration, play func() T) (best T) {
	s.Helper()
	least := time.Duration(-1)
	for range plays {
		before := s.host()
		got := play()
		if took := s.host() - before; least < 0 || took < least {
			best, least = got, took
		}
		if least.Seconds() <= spare*length.Seconds() {
			return best
		}
	}
	s.disturbed++
	return best
}

// hostText says what undisturbed did, and how often in vain since it was said last.
func (s *scene) hostText() string {
	defer func() { s.disturbed = 0 }()
	return fmt.Sprintf(" A turn during which the host did not run that core for more than %s of the time is played again, up to %d times, and the one with the least counts: so much was taken from %d of those that count.",
		permille(spare), plays, s.disturbed)
}

// takenAway is for how long a core has had something to do and was not run by its host, in
// hundredths of a second: "steal" of proc(5). It is zero where there is no host, or
// it does not tell.
func takenAway(tb testing.TB, core int) time.Duration {
	tb.Helper()
	all, err := os.ReadFile("/proc/stat")
	if err != nil {
		tb.Fatal(err)
	}
	took, err := stealOf(all, core)
	if err != nil {
		tb.Fatal(err)
	}
	return took
}

// stealOf reads the time of takenAway from the text of /proc/stat.
func stealOf(stat []byte, core int) (time.Duration, error) {
	const column, unit = 8, time.Second / 100 // USER_HZ
	for line := range bytes.Lines(stat) {
		if f := bytes.Fields(line); len(f) > column && string(f[0]) == "cpu"+strconv.Itoa(core) {
			n, err := strconv.ParseUint(string(f[column]), 10, 40)
			return time.Duration(n) * unit, err
		}
	}
	return 0, fmt.Errorf("/proc/stat has no line of processor %d", core)
}
