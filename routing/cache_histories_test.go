package routing

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var depth = flag.Int("depth", 3, "how long the histories of the route cache are that are all played")

// A hundred, rapid's own default, are played in a tenth of a second.
func init() { flag.Set("rapid.checks", "1000") }

// modelOptions are such that what takes long does not: all periods differ, and a lookup is shorter than any of the others but Patience.
var modelOptions = CacheOptions{TTL: 4 * time.Second, Negative: 2 * time.Second, Stale: 20 * time.Second}

// Contract: the promises of [Cache], see there. All histories are played that begin with one of these and go on with so many steps; the steps of one are
// written together.
func TestCacheKeepsItsPromisesInEveryShortHistory(t *testing.T) {
	steps := []step("LFcsepIEkKraAxtnwT")
	for _, begin := range []string{
		"", "Lra", "LraT", "LrsI", "LrsE", "LrsF", "LraK", "LraFrK", "LrasE", "LrsFtrA", "Lrsttta", "Lrasw", "LraswLw", "eLras", "pLraT",
	} {
		played := 0
		var history []step
		// Which steps are possible is known when those before were made: a history is played for each that is new in it.
		var all func(left int)
		all = func(left int) {
			if t.Failed() {
				return
			}
			var possible []step
			n := 0
			broken := play(t, 1, modelOptions, true, func(w *world) (step, int, bool) {
				if n < len(history) {
					n++
					return history[n-1], 0, w.can(history[n-1], 0)
				}
				possible = slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return !w.can(s, 0) })
				return 0, 0, false
			})
			played++
			if broken != nil {
				t.Errorf("history %s: %v", string(history), broken)
				return
			}
			for i := 0; left > 0 && i < len(possible); i++ {
				history = append(history, possible[i])
				all(left - 1)
				history = history[:len(history)-1]
			}
		}
		history = []step(begin)
		all(*depth - min(len(begin), 1))
		t.Logf("%d histories that begin with %q", played, begin)
	}
}

// Found by a long history. Whoever asked after the kill waits for a question that was put after it, too, and is answered by the record that lingers; the
// life that came after is known by then, and has taken the place of what was known of the kill.
func TestAnAnswerThatWasOvertakenBringsNoDeletedLifeBack(t *testing.T) {
	history, n := []step("LKFtrrsFtrAaa"), 0
	broken := play(t, 1, modelOptions, false, func(w *world) (step, int, bool) {
		if n == len(history) {
			return 0, 0, false
		}
		if n++; !w.can(history[n-1], 0) {
			t.Errorf("%c makes no difference", history[n-1])
		}
		return history[n-1], 0, true
	})
	if broken != nil {
		t.Error(broken)
	}
}

// Several sandboxes, of which not all can be remembered, and histories of 20 to 60 steps, with a registry that keeps to its context or does not.
func TestCacheKeepsItsPromisesInLongHistories(t *testing.T) {
	type move struct {
		step step
		on   int
	}
	opt := modelOptions
	opt.MaxEntries = 2
	steps := rapid.SampledFrom([]step("LLLLLFFcssepIEkKrrrraaaaAxmtttnwwT"))
	on := rapid.SampledFrom([]int{0, 0, 0, 0, 1, 1, 2})
	rapid.Check(t, func(rt *rapid.T) {
		deaf := rapid.Bool().Draw(rt, "deaf")
		moves := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) move {
			return move{steps.Draw(rt, "step"), on.Draw(rt, "on")}
		}), 20, 60).Draw(rt, "history")
		n, played := 0, ""
		broken := play(t, 3, opt, deaf, func(w *world) (step, int, bool) {
			for ; n < len(moves); n++ {
				if m := moves[n]; w.can(m.step, m.on) {
					n++
					played += fmt.Sprintf("%c%d ", m.step, m.on)
					return m.step, m.on, true
				}
			}
			return 0, 0, false
		})
		if broken != nil {
			rt.Fatalf("history %s: %v", played, broken)
		}
	})
}
