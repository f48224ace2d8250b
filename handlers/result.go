package handlers

import "time"

// resultGrace is how long EndStream may come after the end of a process. envd
// sends both together.
const resultGrace = 250 * time.Millisecond

// endSoon lets the upstream say no more once final has found the last message.
// The client has the result then, but will not hand it out before EndStream:
// newer SDKs run into their own deadline first, and lose it; with no deadline
// all of them wait for ever.
func (c *dataCall) endSoon(final func(message []byte) bool) func(message []byte) bool {
	if final == nil {
		return nil
	}
	return func(message []byte) bool {
		found := final(message)
		if found {
			time.AfterFunc(resultGrace, func() { c.cancel(nil) })
		}
		return found
	}
}
