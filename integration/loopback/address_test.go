package loopback

import (
	"net"
	"testing"
)

// What is stopped and started again must find its address free.
func TestAnAddressIsKeptForOneTest(t *testing.T) {
	address := FreeAddress(t)
	for range 2 {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := net.Listen("tcp", address); err == nil {
			other.Close()
			t.Error("two listen there")
		}
		c.Close()
		l.Close()
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Error("somebody listens there")
		}
	}
	// The kernel gives no two sockets that are bound at a time the same port, unless both are in nobody's way.
	for range 500 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if l.Addr().String() == address || FreeAddress(t) == address {
			t.Fatalf("%s was given twice", address)
		}
	}
}
