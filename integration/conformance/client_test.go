package conformance

import (
	"errors"
	"io"
	"net"
	"os"
)

// call is the client that the runner starts: the suite's own, whose calls go to the gateway and on to the server that the runner
// meant. How a client comes to the gateway is the stage's affair, and nothing else of a call changes.
func (s *stage) call(in io.Reader, out io.Writer) error {
	gateway, err := s.gatewayAt(s.Front, "reference")
	if err != nil {
		return err
	}
	defer end(gateway)
	client := child(s.program("referenceclient"))
	client.Stdout = out
	stdin, err := client.StdinPipe()
	if err != nil {
		return err
	}
	if err := client.Start(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.Front.Address)
	number, _ := net.LookupPort("tcp", port)
	var ca []byte
	var server uint64
	if s.Front.TLS {
		if ca, err = os.ReadFile(s.CA); err != nil {
			return err
		}
	}
	for {
		call, err := readMessage(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if meant := call.number(callPort); meant != server {
			// The runner has one server at a time.
			server = meant
			if err := s.sandboxAt("reference", int(server)); err != nil {
				return err
			}
		}
		call = call.without(callVersion, callHost, callPort, callCert).withNumber(callVersion, uint64(s.Front.Version)).
			withBytes(callHost, []byte("127.0.0.1")).withNumber(callPort, uint64(number))
		if ca != nil {
			call = call.withBytes(callCert, ca)
		}
		if err := call.writeTo(stdin); err != nil {
			return err
		}
	}
	stdin.Close()
	return client.Wait()
}
