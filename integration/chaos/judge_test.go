package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// truth is what the judge holds a story against.
type truth interface {
	// live: the sandbox was alive and registered all the time.
	live(sandbox string, from, to time.Time) bool
	// absent: why the gateway may have left the request without an answer.
	absent(gateway int, from, asked, to time.Time) absence
	// runs is how often a request has arrived behind the gateway.
	runs(id string) int
	// body is how long a request's body was that has come to its end there.
	body(id string) (length int64, whole bool)
}

// judge returns what is wrong with a story: nothing, if all that must hold whatever happens has held.
func judge(s *story, t truth) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	absence, arrived := t.absent(s.gateway, s.begun, s.asked(), s.ended), t.runs(s.id)

	// The right sandbox or an error, never another's.
	for name := range s.names {
		if name != s.sandbox {
			complain("another's: it was for %s, and %s has answered", s.sandbox, name)
		}
	}
	for id := range s.ids {
		if id != s.id {
			complain("another's: it is the answer to request %s", id)
		}
	}
	if s.foreign != "" {
		complain("another's: what came is not of this answer")
	}

	// Nothing happens twice. A library that repeats a request of its own accord has sent it as often.
	if arrived > max(s.writes, 1) {
		complain("twice: it was sent %d times and arrived %d times", s.writes, arrived)
	}
	if n, whole := t.body(s.id); whole && n != s.sends {
		complain("cut: its body had %d bytes, and the sandbox took %d for all", s.sends, n)
	}

	if s.status != 0 && s.sent.IsZero() {
		complain("answered: it was never sent")
	}
	if s.late && !s.left {
		complain("hang: its client lost patience")
	}
	// A live sandbox is never said to be gone, by whom and to whom ever.
	if s.saysGone() && t.live(s.sandbox, s.begun, s.ended) {
		complain("gone: a live sandbox is said to be")
	}
	if s.left || s.late || absence == killed {
		return wrong
	}
	switch {
	case s.status == 0:
		if absence == there || absence == closing && arrived > 0 {
			complain("no answer: %v", s.err)
		}
	case s.stream:
		wrong = append(wrong, s.judgeStream()...)
	case s.err != nil: // the cut can be seen
	case s.status == http.StatusOK && s.call == "read" && fmt.Sprint(s.length) != s.header.Get(headerLength):
		complain("cut: %d bytes of %s are taken for all", s.length, s.header.Get(headerLength))
	}
	return wrong
}

// serves reports what is wrong with a story where nothing goes wrong around the gateways: everything but what was asked for.
func serves(s *story) (wrong []string) {
	switch {
	case s.left:
	case s.status/100 != 2:
		wrong = append(wrong, notServed(s.status))
	case s.stream && s.code != "":
		wrong = append(wrong, notServed(fmt.Sprintf("a stream ended %q", s.code)))
	case s.err != nil:
		wrong = append(wrong, notServed(s.err))
	}
	return wrong
}

func notServed(what any) string {
	return fmt.Sprintf("not served: %v, with nothing wrong around the gateways", what)
}

// judgeStream judges the end of a stream that has begun.
func (s *story) judgeStream() (wrong []string) {
	switch {
	case s.torn:
		wrong = append(wrong, "raw end: inside an envelope")
	case s.finals == 0:
		wrong = append(wrong, fmt.Sprintf("raw end: no EndStream, %v", s.err))
	case s.finals > 1 || s.after:
		wrong = append(wrong, "raw end: more after EndStream")
	case s.err != nil:
		wrong = append(wrong, fmt.Sprintf("raw end: %v after EndStream", s.err))
	case s.code == "" && s.messages != s.wanted:
		wrong = append(wrong, fmt.Sprintf("cut: %d of %d messages are taken for all", s.messages, s.wanted))
	}
	return wrong
}

// saysGone reports an answer that makes an SDK throw its sandbox away.
func (s *story) saysGone() bool {
	switch {
	case s.stream:
		return s.code == "unavailable"
	case s.call == "info":
		return s.status == http.StatusNotFound
	case s.status == http.StatusBadGateway:
		return true
	default:
		return s.status >= 400 && strings.Contains(s.text, `"code":"unavailable"`)
	}
}
