package chaos

import (
	"time"

	"github.com/caddy-e2b/gateway/integration/rock"
)

// fault is something that goes wrong.
type fault struct {
	name   string
	fits   func(kind) bool
	weight int
	once   bool          // in a plan: two at a time would be in each other's way
	family string        // of those that are in each other's way
	takes  time.Duration // how much longer the plan must last
	// begin does it and returns what ends it. It runs in the goroutine of the test, and is quick.
	begin func(w *world, s step) (end func())
}

func (f fault) group() string {
	if f.family != "" {
		return f.family
	}
	return f.name
}

func anywhere(kind) bool { return true }
func in(r registry) func(k kind) bool {
	return func(k kind) bool { return k.registry == r }
}

// pick is one of the seed's sandboxes.
func (w *world) pick(s step) string {
	all := w.names()
	return all[s.a%len(all)]
}

// faults are all that there are. The order is part of what a seed means.
var faults = concat(redisFaults, roleFaults, sandboxFaults, gatewayFaults, limitFaults, clockFaults, darkFaults)

func concat(all ...[]fault) (list []fault) {
	for _, some := range all {
		list = append(list, some...)
	}
	return list
}

// on makes a fault of a wire.
func on(wireOf func(*world) *wire, begin func(*wire, step)) func(*world, step) func() {
	return func(w *world, s step) func() {
		line := wireOf(w)
		begin(line, s)
		return line.heal
	}
}

func wireOfRole(role rock.Role) func(*world) *wire {
	return func(w *world) *wire { return w.roles[role] }
}

var breakWire = []struct {
	name string
	do   func(*wire, step)
}{
	{"refuses", func(l *wire, _ step) { l.refuse() }},
	{"is cut", func(l *wire, _ step) { l.cut() }},
	{"is slow", func(l *wire, s step) { l.slow(time.Duration(10+s.c%300) * time.Millisecond) }},
	{"is silent", func(l *wire, _ step) { l.stall() }},
	{"is half-closed", func(l *wire, _ step) { l.halfClose() }},
}

var roleFaults = func() (list []fault) {
	for _, role := range []rock.Role{rock.Admin, rock.Proxy} {
		for _, b := range breakWire {
			list = append(list, fault{
				name: "the " + string(role) + " role " + b.name, weight: 1, once: true, family: "wire of " + string(role), fits: func(k kind) bool {
					return role == rock.Admin || !k.direct
				}, begin: on(wireOfRole(role), b.do),
			})
		}
	}
	return append(list, fault{name: "answers break", fits: anywhere, weight: 3, begin: breakAnswers},
		fault{name: "ROCK answers wrong", fits: func(k kind) bool { return !k.direct }, weight: 1, begin: wrongAnswers})
}()

// dataRole is who answers the data plane to a gateway.
func (w *world) dataRole() rock.Role {
	if w.kind.direct {
		return rock.Envd
	}
	return rock.Proxy
}

// breakAnswers breaks the answers of one sandbox, or of all, at a byte.
func breakAnswers(w *world, s step) func() {
	kinds := []rock.Kind{rock.Reset, rock.Close, rock.HalfClose, rock.Silence, rock.CleanEnd, rock.Delay}
	places := []int64{rock.BeforeHandler, rock.BeforeHeaders, 0, 3, int64(s.c % 200), int64(s.c % 20_000)}
	f := rock.Fault{
		Match: rock.Match{Role: w.dataRole(), Sandbox: w.pick(s)}, Kind: kinds[s.b%len(kinds)], At: places[s.b/len(kinds)%len(places)],
		Wait: time.Duration(s.c%400) * time.Millisecond, Every: int64(s.c % 5000),
	}
	if s.a%5 == 0 {
		f.Sandbox = ""
	}
	if f.Kind == rock.CleanEnd {
		f.Path = "/process.Process/" // of a stream everybody can see that its end is missing; of a file nobody
	}
	return w.rock.Faults().Add(f).Disarm
}

// wrongAnswers lets the proxy role answer in ROCK's worst words.
func wrongAnswers(w *world, s step) func() {
	html := rock.Answer{Status: 502, Header: map[string][]string{"Content-Type": {"text/html"}}, Body: "<html><h1>502 Bad Gateway</h1></html>"}
	answers := []rock.Answer{rock.Traceback(), html}
	f := rock.Fault{Match: rock.Match{Role: rock.Proxy, Sandbox: w.pick(s)}, Kind: rock.AnswerWith, At: rock.BeforeHeaders, Answer: answers[s.b%len(answers)]}
	return w.rock.Faults().Add(f).Disarm
}
