package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// story is one request, as its client saw it.
type story struct {
	id      string
	call    string // "stat", "health", "read", "write", "run", "info", "create"
	sandbox string
	gateway int
	begun   time.Time
	sent    time.Time // by the client's library; zero: never
	ended   time.Time

	left   bool  // the client went away on purpose
	late   bool  // nothing ended it but the client's patience
	writes int   // how often the client's library has sent it
	sends  int64 // how long the request's body is, when it is sent to its end

	status  int // 0: there was no answer
	header  http.Header
	err     error // what broke the answer
	length  int64 // of the answer's body
	text    string
	names   map[string]bool // of the sandboxes that speak in the answer
	ids     map[string]bool // of the requests that it is an answer to
	foreign string          // a line or message that is not of this answer's kind

	stream   bool // a Connect stream has begun
	messages int  // that came in their order
	wanted   int  // that there are
	finals   int  // EndStreams
	code     string
	torn     bool // it ended inside an envelope
	after    bool // something came after its end
}

func newStory(id, call, sandbox string, gateway int) *story {
	return &story{
		id: id, call: call, sandbox: sandbox, gateway: gateway, begun: time.Now(), names: map[string]bool{}, ids: map[string]bool{},
	}
}

// asked is when a gateway could read it: for one that was never sent, the time at which its client gave up.
func (s *story) asked() time.Time {
	if s.sent.IsZero() {
		return s.ended
	}
	return s.sent
}

func (s *story) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "request %s: %s of %s through gateway %d, from %s, for %v", s.id, s.call, s.sandbox, s.gateway,
		s.begun.Format("15:04:05.000"), s.ended.Sub(s.begun).Round(time.Millisecond))
	fmt.Fprintf(&b, "\n    sent %d times; left by its client: %v; answer: %d, %d bytes, error %v", s.writes, s.left, s.status, s.length, s.err)
	if s.stream {
		fmt.Fprintf(&b, "\n    a stream: %d of %d messages, %d EndStream %q, torn %v, more after its end %v",
			s.messages, s.wanted, s.finals, s.code, s.torn, s.after)
	}
	if s.text != "" {
		fmt.Fprintf(&b, "\n    %.600s", s.text)
	}
	if s.foreign != "" {
		fmt.Fprintf(&b, "\n    not its own: %.200q", s.foreign)
	}
	return b.String()
}
