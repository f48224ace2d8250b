package handlers

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/routing"
)

// countsOf waits until what a gateway has counted is as wanted: a client has its answer
// before the call is over.
func (g *rig) wantCounted(t *testing.T, cluster, what string, wanted func(*Counted) bool) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for !wanted(g.gateway.countsOf(cluster).Read()) {
		if time.Now().After(end) {
			t.Fatalf("%s: %+v", what, g.gateway.countsOf(cluster).Read())
		}
		<-time.After(time.Millisecond)
	}
}

func TestACallIsCountedByClusterPlaneAndEnd(t *testing.T) {
	g := newRig(t)
	g.proxy = answerWith(200, unary, "{}")
	g.call(t, "POST", stat, unary, "{}")
	g.call(t, "POST", stat, unary, "{}")
	g.wantCounted(t, "test", "answered", func(c *Counted) bool { return c.Requests[routing.DataPlane][cause.OK] == 2 })
	g.call(t, "GET", "/init", "", "")
	g.wantCounted(t, "", "refused before a cluster was asked", func(c *Counted) bool {
		return c.Requests[routing.DataPlane][cause.Reserved]+c.Requests[routing.NoPlane][cause.Reserved] == 1
	})
	g.call(t, "GET", "/nothing", "", "")
	g.wantCounted(t, "", "no call of the API", func(c *Counted) bool { return c.Requests[routing.NoPlane][cause.NoSuchRoute] == 1 })
	g.send(t, "GET", "/sandboxes/sbx-1", "", "")
	g.wantCounted(t, "test", "control plane", func(c *Counted) bool {
		n := uint64(0)
		for _, of := range c.Requests[routing.ControlPlane] {
			n += of
		}
		return n == 1
	})
}

func TestAStreamIsCountedWhileItRunsAndByItsEnd(t *testing.T) {
	g := newRig(t)
	going := make(chan struct{})
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", stream)
		io.WriteString(w, frame(0, "{}"))
		w.(http.Flusher).Flush()
		<-going
		io.WriteString(w, frame(2, "{}"))
	}
	answered := make(chan reply, 1)
	go func() { answered <- g.call(t, "POST", start, stream, "") }()
	g.wantCounted(t, "test", "running", func(c *Counted) bool { return c.Streams == 1 })
	close(going)
	<-answered
	g.wantCounted(t, "test", "over", func(c *Counted) bool { return c.Streams == 0 && c.StreamEnds[cause.OK] == 1 })
	g.call(t, "POST", stat, unary, "{}") // is none
	g.wantCounted(t, "test", "a unary call", func(c *Counted) bool {
		return c.Requests[routing.DataPlane][cause.UpstreamInvalid] == 1 && c.StreamEnds == [cause.Count]uint64{cause.OK: 1} && c.KillToEnd.Count == 0
	})
}

// From the moment that it is known, in each of the ways in which it becomes known.
func TestHowLateAStreamIsToldOfTheEndOfItsSandboxIsMeasured(t *testing.T) {
	for name, kill := range map[string]func(g *rig, cut chan struct{}){
		"by a call through the gateway": func(g *rig, _ chan struct{}) { g.gateway.opt.Deaths.tell("sbx-1", cause.SandboxGone) },
		"before there is an answer":     func(g *rig, _ chan struct{}) { g.gateway.opt.Deaths.tell("sbx-1", cause.SandboxGone) },
		"by a lost connection": func(g *rig, cut chan struct{}) {
			g.registry.say(0, routing.ErrGone)
			close(cut)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			cut := make(chan struct{})
			g.proxy = func(w http.ResponseWriter, r *http.Request) {
				if name != "before there is an answer" {
					w.Header().Set("Content-Type", stream)
					io.WriteString(w, frame(0, "{}"))
					w.(http.Flusher).Flush()
				}
				select {
				case <-cut:
					panic(http.ErrAbortHandler)
				case <-r.Context().Done():
				}
			}
			begun := time.Now()
			answered := make(chan reply, 1)
			go func() { answered <- g.call(t, "POST", start, stream, "") }()
			g.wantCounted(t, "test", "running", func(c *Counted) bool { return c.Streams == 1 })
			kill(g, cut)
			<-answered
			g.wantCounted(t, "test", "told", func(c *Counted) bool {
				return c.StreamEnds[cause.SandboxGone] == 1 && c.KillToEnd.Count == 1 && c.KillToEnd.Sum > 0 && c.KillToEnd.Sum < time.Since(begun)
			})
		})
	}
}

func TestAWaitForASandboxIsCountedWithWhatHasComeOfIt(t *testing.T) {
	g := newRig(t, func(o *Options) { o.ReadyTimeout = time.Minute })
	g.registry.say(routing.StateStarting, nil)
	g.proxy = answerWith(200, unary, "{}")
	answered := make(chan reply, 1)
	go func() { answered <- g.call(t, "POST", stat, unary, "{}") }()
	g.wantCounted(t, "test", "waiting", func(c *Counted) bool { return c.Waiting == 1 })
	g.gateway.ready.settle("sbx-1", cause.SandboxGone)
	<-answered
	g.wantCounted(t, "test", "over", func(c *Counted) bool {
		return c.Waiting == 0 && c.ReadyWait.Count == 1 && c.ReadyWaits == [cause.Count]uint64{cause.SandboxGone: 1}
	})
}

// What operators are told of a refused credential, and clients are not.
func TestWhyACredentialIsRefusedIsTold(t *testing.T) {
	for want, outs := range map[Refused][]Outcome{
		CredentialMissing:    {{End: cause.Unauthenticated, Err: errNoKey}, {End: cause.Unauthenticated, Err: auth.ErrNotSent}, {End: cause.Unauthenticated, Err: auth.ErrNoSignature}, {End: cause.TrafficTokenMissing}},
		CredentialWrong:      {{End: cause.Unauthenticated, Err: errTokenWrong}, {End: cause.Unauthenticated, Err: auth.ErrUnknownKey}, {End: cause.TrafficTokenWrong, Err: errTrafficTokenWrong}, {End: cause.Unauthenticated, Err: auth.ErrSignature}},
		CredentialOfOtherKey: {{End: cause.Unauthenticated, Err: errOtherKey}, {End: cause.TrafficTokenWrong, Err: errOtherKey}},
		CredentialExpired:    {{End: cause.Unauthenticated, Err: auth.ErrSignatureExpired}},
		CredentialTwice:      {{End: cause.BadRequest, Err: errTwoKeys}, {End: cause.BadRequest, Err: fmt.Errorf("x: %w", auth.ErrSentTwice)}, {End: cause.BadRequest, Err: auth.ErrQuery}},
		CredentialScope:      {{End: cause.Forbidden}},
		CredentialUnchecked:  {{End: cause.KeysUnavailable}},
	} {
		for _, out := range outs {
			if got, refused := refusalOf(&out); got != want || !refused {
				t.Errorf("%v, %v: %s %v, want %s", out.End, out.Err, got, refused, want)
			}
		}
	}
	for _, out := range []Outcome{{End: cause.BadRequest}, {End: cause.SandboxGone, Err: errNotFound}, {End: cause.ClientGone, Err: auth.ErrUnknownKey}} {
		if got, refused := refusalOf(&out); refused {
			t.Errorf("%v, %v: %s", out.End, out.Err, got)
		}
	}
}

func TestATokenOfAKeyThatIsNotHereIsToldFromAWrongOne(t *testing.T) {
	a := &Access{Tokens: tokens(t, "new")}
	good := tokens(t, "old").Mint(auth.AccessToken, mine, "alice")
	_, f, err := a.examineToken(t.Context(), good, mine)
	if f != tokenWrong || err != errOtherKey {
		t.Errorf("a key that was taken away: %v, %v", f, err)
	}
	for _, wrong := range []string{tokens(t, "new").Mint(auth.AccessToken, "other", "alice"), good[1:], good[:len(good)-1], "e2ba_", "e2ba_old_", "e2ba_NEW_" + good[9:], ""} {
		if _, f, err := a.examineToken(t.Context(), wrong, mine); f != tokenWrong || err != errTokenWrong {
			t.Errorf("%q: %v, %v", wrong, f, err)
		}
	}
}

// A gateway that follows another goes on counting where that has been.
func TestGatewaysShareTheCountsOfClustersOfOneName(t *testing.T) {
	shared := map[string]*Counts{"test": NewCounts()}
	for n := range uint64(2) {
		g := newRig(t, func(o *Options) { o.Counts = shared })
		g.proxy = answerWith(200, unary, "{}")
		g.call(t, "POST", stat, unary, "{}")
		g.wantCounted(t, "test", "answered", func(c *Counted) bool { return c.Requests[routing.DataPlane][cause.OK] == n+1 })
		if g.gateway.countsOf("unheard of") != g.gateway.countsOf("") {
			t.Error("a cluster that is not configured has counts of its own")
		}
	}
}
