package main

import "testing"

func TestAHeapHasHeadroomOrItsOwnSizeWhateverIsMore(t *testing.T) {
	for live, want := range map[uint64]int{
		0:        1600,
		4 << 20:  1600,
		16 << 20: 400,
		headroom: 100,
		1 << 30:  100,
		1 << 42:  100,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("%d bytes: %d percent", live, got)
		}
	}
}
