package handlers

import "sync"

// births are the creates under way whose sandbox gets an id that its creator has
// chosen. Between the look whether the id is free and the record that ROCK makes,
// somebody else could be told that it is free, too, and ROCK would note the last
// one to ask as the owner.
type births struct {
	mu       sync.Mutex
	underWay map[string]*birth // by the sandbox's id
}

type birth struct {
	subject string
	creates int
}

// begin claims an id for the subject until over is called. It reports false while
// somebody else makes a sandbox with that id. The subject "" is somebody else each
// time.
func (b *births) begin(sandboxID, subject string) (over func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.underWay[sandboxID]
	switch {
	case at == nil:
		at = &birth{subject: subject}
		if b.underWay == nil {
			b.underWay = map[string]*birth{}
		}
		b.underWay[sandboxID] = at
	case at.subject != subject || subject == "":
		return nil, false
	}
	at.creates++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if at.creates--; at.creates == 0 {
			delete(b.underWay, sandboxID)
		}
	}, true
}
