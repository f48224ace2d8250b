package module

import (
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/handlers/cause"
)

const (
	// complaintsEach is how many lines about failures of one cause are written in each
	// complaintsPer: enough to see what goes on, and 6 KB a second.
	complaintsEach = 10
	complaintsPer  = time.Second
)

// complaints keeps a handler's lines about failed requests from filling a disk. When a
// registry is down there is one for every request, and all say the same. Each cause
// has a quota of its own, so that a flood of one drowns no other. How many there were
// is for the metrics to say, and which for the access log.
type complaints struct{ of [cause.Count]quota }

// quota is what one cause has.
type quota struct {
	mu      sync.Mutex
	begun   time.Time // of the present interval
	written int       // in it
	omitted uint64    // since the last line
}

// admit reports whether a line may be written now, and how many were not since the
// last one.
func (c *complaints) admit(of cause.Cause, now time.Time) (omitted uint64, ok bool) {
	s := &c.of[of]
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := now.Sub(s.begun); since >= complaintsPer || since < 0 {
		s.begun, s.written = now, 0
	}
	if s.written == complaintsEach {
		s.omitted++
		return 0, false
	}
	s.written++
	omitted, s.omitted = s.omitted, 0
	return omitted, true
}
