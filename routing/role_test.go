package routing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func endpoints(t *testing.T, n int) []*Endpoint {
	t.Helper()
	var list []*Endpoint
	for i := range n {
		e, err := ParseEndpoint(fmt.Sprintf("http://proxy-%d:8080", i))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func TestParseEndpointTakesAnOriginAndNothingElse(t *testing.T) {
	for raw, want := range map[string][2]string{
		"http://rock:8080":  {"http", "rock:8080"},
		"http://rock":       {"http", "rock:80"},
		"https://rock/":     {"https", "rock:443"},
		"http://[fd00::7]":  {"http", "[fd00::7]:80"},
		"http://10.0.0.1:1": {"http", "10.0.0.1:1"},
	} {
		e, err := ParseEndpoint(raw)
		if err != nil || e.Scheme != want[0] || e.Address != want[1] {
			t.Errorf("ParseEndpoint(%q) = %+v, %v", raw, e, err)
		}
	}
	for _, raw := range []string{"", "rock:8080", "ftp://rock", "http://", "http://rock:0", "http://rock:65536", "http://rock/api", "http://rock?x", "http://[fe80::1%25en0]:80", "http://u:p@rock", "http://ro ck"} {
		if e, err := ParseEndpoint(raw); err == nil {
			t.Errorf("ParseEndpoint(%q) = %+v, want an error", raw, e)
		}
	}
}

func TestAPasswordInAnAddressIsNotQuoted(t *testing.T) {
	for _, raw := range []string{"http://u:canary@rock", "u:canary@rock:80", "http://u:canary%zz@rock", "ftp://u:canary@rock", "http://u:canary@"} {
		if _, err := ParseEndpoint(raw); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("ParseEndpoint(%q): %v", raw, err)
		}
	}
}

func TestOneSandboxAlwaysPrefersOneAddress(t *testing.T) {
	a, b := NewBalancer(endpoints(t, 5), nil), NewBalancer(endpoints(t, 5), nil)
	slices.Reverse(b.endpoints)
	hits := map[string]int{}
	for i := range 5000 {
		key := fmt.Sprintf("sandbox-%d", i)
		first := a.Candidates(key)[0].Address
		if other := b.Candidates(key)[0].Address; other != first {
			t.Fatalf("%s goes to %s and, configured in another order, to %s", key, first, other)
		}
		hits[first]++
	}
	for address, n := range hits {
		if n < 800 || n > 1200 {
			t.Errorf("%s gets %d of 5000 sandboxes", address, n)
		}
	}
}

func TestRemovingAnAddressMovesOnlyItsOwnSandboxes(t *testing.T) {
	five, four := NewBalancer(endpoints(t, 5), nil), NewBalancer(endpoints(t, 4), nil)
	for i := range 1000 {
		key := fmt.Sprintf("sandbox-%d", i)
		before, after := five.Candidates(key)[0].Address, four.Candidates(key)[0].Address
		if before != after && before != "proxy-4:8080" {
			t.Fatalf("%s moved from %s to %s", key, before, after)
		}
	}
}

func TestCallsWithoutAKeyGoRound(t *testing.T) {
	b := NewBalancer(endpoints(t, 3), nil)
	hits := map[string]int{}
	for range 30 {
		hits[b.Candidates("")[0].Address]++
	}
	for address, n := range hits {
		if n != 10 {
			t.Errorf("%s gets %d of 30 calls", address, n)
		}
	}
}

func TestAnAddressThatCannotBeDialledIsLastUntilAProbeReachesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var works atomic.Bool
		var probes atomic.Int32
		b := NewBalancer(endpoints(t, 2), func(context.Context, string) error {
			probes.Add(1)
			if !works.Load() {
				return errors.New("refused")
			}
			return nil
		})
		defer b.Close()
		first := b.Candidates("key")[0]
		b.DialFailed(first)
		b.DialFailed(first)
		if got := b.Candidates("key"); got[0] == first || got[1] != first {
			t.Fatal("the address that failed is still the first choice")
		}
		for range 3 {
			synctest.Wait()
			time.Sleep(ProbeInterval)
		}
		synctest.Wait()
		if n := probes.Load(); n != 3 {
			t.Fatalf("%d probes in three intervals", n)
		}
		works.Store(true)
		time.Sleep(ProbeInterval)
		synctest.Wait()
		if b.Candidates("key")[0] != first {
			t.Fatal("the address is back but not the first choice again")
		}
	})
}

func TestWhenNoAddressIsUpAllAreOffered(t *testing.T) {
	b := NewBalancer(endpoints(t, 3), func(context.Context, string) error { return errors.New("refused") })
	defer b.Close()
	for _, e := range b.Endpoints() {
		b.DialFailed(e)
	}
	if n := len(b.Candidates("key")); n != 3 {
		t.Fatalf("%d candidates", n)
	}
}

func TestCloseEndsTheProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int32
		b := NewBalancer(endpoints(t, 2), func(context.Context, string) error { probes.Add(1); return errors.New("refused") })
		b.DialFailed(b.Endpoints()[0])
		b.Close()
		b.DialFailed(b.Endpoints()[1])
		time.Sleep(5 * ProbeInterval)
		synctest.Wait()
		if n := probes.Load(); n != 0 {
			t.Fatalf("%d probes after Close", n)
		}
	})
}

func TestARoleIsReachedByOneOfItsAddressesAndTheOthersAreNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		all := endpoints(t, 3)
		works := map[string]bool{all[0].Address: true, all[1].Address: true}
		b := NewBalancer(all, func(_ context.Context, address string) error {
			dials.Add(1)
			if !works[address] {
				return errors.New("refused")
			}
			return nil
		})
		defer b.Close()
		if !b.Reach(t.Context()) || dials.Load() != 3 || !all[0].Up() || !all[1].Up() || all[2].Up() {
			t.Errorf("%d dials: %v %v %v", dials.Load(), all[0].Up(), all[1].Up(), all[2].Up())
		}
		if !b.Reach(t.Context()) || dials.Load() != 5 { // the third has its probe
			t.Errorf("%d dials", dials.Load())
		}
		delete(works, all[0].Address)
		delete(works, all[1].Address)
		if b.Reach(t.Context()) || all[0].Up() || all[1].Up() {
			t.Error("a role without an address is reached")
		}
	})
}

func TestACopyOfARoleGoesItsOwnWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBalancer(endpoints(t, 2), func(context.Context, string) error { return errors.New("refused") })
		defer b.Close()
		b.DialFailed(b.Endpoints()[0])
		c := b.Copy()
		if c.Endpoints()[0].Up() || !c.Endpoints()[1].Up() || c.Endpoints()[1].Address != b.Endpoints()[1].Address {
			t.Errorf("%v of %v", c, b)
		}
		c.DialFailed(c.Endpoints()[1]) // and nobody probes it: the test would wait for that
		if !b.Endpoints()[1].Up() {
			t.Error("the original was called down")
		}
	})
}
