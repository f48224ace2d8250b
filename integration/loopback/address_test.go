package loopback

import "testing"

// Two gateways on one port would each get half of the other's connections.
func TestAnAddressIsGivenToOneTestAtATime(t *testing.T) {
	address := FreeAddress(t)
	if claim(t, address) {
		t.Errorf("%s was given twice", address)
	}
	t.Run("until it ends", func(t *testing.T) { address = FreeAddress(t) })
	if !claim(t, address) {
		t.Errorf("%s is kept for ever", address)
	}
}
