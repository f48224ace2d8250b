package cause

// Codes with which a server closes a WebSocket (RFC 6455 section 7.4.1).
const (
	goingAway     = 1001
	internalError = 1011
)

// WebSocketClose is the code and the reason of the close frame that tells the
// failure. The reason may be longer than a close frame can hold.
func (f Failure) WebSocketClose() (code uint16, reason string) {
	if f.Cause == Drain {
		return goingAway, f.Text()
	}
	return internalError, f.Text()
}
