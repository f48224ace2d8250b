package main

import (
	"slices"
	"testing"
	"time"
)

func TestAHeapHasHeadroomOrItsOwnSizeWhateverIsMore(t *testing.T) {
	for live, want := range map[uint64]struct{ rests, grows int }{
		0:            {1600, 1600},
		4 << 20:      {1600, 1600},
		16 << 20:     {400, 400},
		headroom / 2: {200, 200}, // and as much of stacks
		headroom:     {100, 50},
		2 * headroom: {100, 25},
		1 << 30:      {100, 25},
		1 << 42:      {100, 25},
	} {
		if got := percentFor(live, live, false); got != want.rests {
			t.Errorf("%d bytes: %d percent", live, got)
		}
		if got := percentFor(live, live, true); got != want.grows {
			t.Errorf("%d bytes, growing: %d percent", live, got)
		}
	}
}

func TestAProcessAtWorkIsCollectedSoonAndThenSeldom(t *testing.T) {
	const start = 5 << 20
	for name, c := range map[string]struct {
		rate     uint64 // bytes a second
		own      bool   // memory is collected anyway, all the time
		collects []int  // seconds since the start
	}{
		"busy":               {4 << 20, false, []int{1, 3, 7, 15, 23}},
		"little to do":       {400 << 10, false, []int{3, 7, 15, 23}},
		"next to nothing":    {50 << 10, false, []int{21}},
		"busier than needed": {200 << 20, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var p pace
			var collects []int
			cycles := uint64(3)
			p.next(cycles, start)
			for at := time.Second; at < 24*time.Second; {
				if c.own {
					cycles++
				}
				wait, due := p.next(cycles, start+c.rate*uint64(at/time.Second))
				if due {
					cycles++
					collects = append(collects, int(at/time.Second))
				}
				at += wait
			}
			if !slices.Equal(collects, c.collects) {
				t.Errorf("collected at %d s, want %d", collects, c.collects)
			}
		})
	}
}
