package conformance

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// patience is how long a program may take to listen. The runner waits for 10 s.
const patience = 8 * time.Second

// listens waits until somebody listens on an address. There is no other way to hear of it from a foreign process.
func listens(address string, within time.Duration) error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(within); ; <-poll.C {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// serve is the server that the runner starts: the suite's own, and the gateway in front. It ends with SIGTERM.
func (s *stage) serve(in io.Reader, out io.Writer) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	asked, err := readMessage(in)
	if err != nil {
		return err
	}
	app := &anyVersion{}
	for _, version := range []uint64{http1, http2} {
		server, port, err := s.reference(asked, version)
		if err != nil {
			return err
		}
		defer end(server)
		app.servers[version] = port
	}
	port, err := app.listen()
	if err != nil {
		return err
	}
	id := fmt.Sprintf("conformance%d", os.Getpid())
	if err := s.sandboxAt(id, port); err != nil {
		return err
	}
	f, err := s.frontFor(asked)
	if err != nil {
		return err
	}
	gateway, err := s.gatewayAt(f, id)
	if err != nil {
		return err
	}
	defer end(gateway)
	if err := s.served(f).writeTo(out); err != nil {
		return err
	}
	<-stop
	return nil
}

// served is where the client finds the gateway.
func (s *stage) served(f front) message {
	_, port, _ := net.SplitHostPort(f.Address)
	number, _ := net.LookupPort("tcp", port)
	m := message(nil).withBytes(servedHost, []byte("127.0.0.1")).withNumber(servedPort, uint64(number))
	if f.TLS {
		ca, _ := os.ReadFile(s.CA)
		m = m.withBytes(servedCert, ca)
	}
	return m
}

// reference starts the suite's server as the gateway reaches it, in cleartext: with the version of HTTP that is asked for.
func (s *stage) reference(asked message, version uint64) (*exec.Cmd, int, error) {
	server := child(s.program("referenceserver"))
	stdin, err := server.StdinPipe()
	if err != nil {
		return nil, 0, err
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := server.Start(); err != nil {
		return nil, 0, err
	}
	ask := message(nil).withNumber(askedProtocol, asked.number(askedProtocol)).withNumber(askedVersion, version).
		withNumber(askedLimit, asked.number(askedLimit))
	if err := ask.writeTo(stdin); err != nil {
		end(server)
		return nil, 0, err
	}
	stdin.Close()
	served, err := readMessage(stdout)
	if err != nil {
		end(server)
		return nil, 0, fmt.Errorf("the reference server: %w", err)
	}
	return server, int(served.number(servedPort)), nil
}

// waysIn is how many protocols there are times how many versions of HTTP.
const waysIn = 9

// frontFor is the way in that was asked for. No two servers of a run are asked for the same at a time.
func (s *stage) frontFor(asked message) (front, error) {
	f := front{Version: int(asked.number(askedVersion)), TLS: asked.number(askedTLS) != 0}
	nth := 3*int(asked.number(askedProtocol)-1) + f.Version - 1
	if f.TLS {
		nth += waysIn
	}
	if cert := asked.bytes(askedClientCert); len(cert) > 0 {
		nth += waysIn
		f.Clients = filepath.Join(s.Logs, fmt.Sprintf("clients-%d.pem", nth))
		if err := os.WriteFile(f.Clients, cert, 0o600); err != nil {
			return front{}, err
		}
	}
	f.Address = s.Addresses[nth]
	return f, nil
}

// end kills a process and waits for its end.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
