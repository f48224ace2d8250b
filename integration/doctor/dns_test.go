package doctor

import (
	"errors"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// serveDNS is a DNS server that knows the zone sandbox.example.com and what is
// below it, but not the names in lacking, nor what is below a "*." in it.
func serveDNS(t *testing.T, lacking ...string) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if answer, err := answerDNS(buffer[:n], lacking); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

func answerDNS(question []byte, lacking []string) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil || len(m.Questions) != 1 {
		return nil, errors.New("no question")
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	q := m.Questions[0]
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	if !strings.HasSuffix("."+name, ".sandbox.example.com") || lacks(lacking, name) {
		m.RCode = dnsmessage.RCodeNameError
	} else if q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	return m.Pack()
}

func lacks(lacking []string, name string) bool {
	for _, l := range lacking {
		if below, ok := strings.CutPrefix(l, "*"); name == l || ok && strings.HasSuffix(name, below) && strings.HasPrefix(name, "49983-") {
			return true
		}
	}
	return false
}
