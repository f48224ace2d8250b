package rock

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/integration/heldport"
)

// portRest is how long a port of the machine belongs to nobody after the last record that named it: a gateway may remember the record for
// about as long, and would take whoever has the port for the sandbox. No host may give a port away earlier.
const portRest = 30 * time.Second

// keepPort takes a port of the machine for the sandbox: the one with the number, or a free one (0). It is the sandbox's, whether or not
// something listens there, until its records are gone for good.
func (s *Sandbox) keepPort(number int) (*heldport.Port, error) {
	p, err := heldport.Take(number)
	if err != nil {
		return nil, fmt.Errorf("rock: sandbox %s: %w", s.ID, err)
	}
	c := s.cluster
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		p.Close()
		return nil, errors.New("rock: cluster closed")
	}
	c.kept[p] = struct{}{}
	c.mu.Unlock()
	s.mu.Lock()
	s.kept = append(s.kept, p)
	s.mu.Unlock()
	return p, nil
}

// leavePorts gives the ports of a deleted sandbox back, portRest from now: not those whose records could not be removed.
// Cluster.Close gives all back.
func (s *Sandbox) leavePorts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ports := s.kept; !s.recorded {
		s.kept = nil
		time.AfterFunc(portRest, func() { s.cluster.freePorts(ports...) })
	}
}

func (c *Cluster) freePorts(ports ...*heldport.Port) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range ports {
		delete(c.kept, p)
		p.Close()
	}
}

// listen serves one of the sandbox's own addresses, at a port that it keeps: a free one (0), or the one with the number.
func (s *Sandbox) listen(role Role, number int, h http.Handler) (*Server, error) {
	p, err := s.keepPort(number)
	if err != nil {
		return nil, err
	}
	return s.cluster.serve(role, p.Address, s, h)
}

// openDoors opens the rocklet and takes the published ports, and puts them into ports. The rocklet ends with the container.
func (s *Sandbox) openDoors(ports map[int]int) error {
	c := s.cluster
	for _, port := range c.opt.Published {
		p, err := s.keepPort(0)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.published[port] = p.Address
		s.mu.Unlock()
		ports[port] = p.Number
	}
	if !c.opt.Rocklet {
		return nil
	}
	srv, err := s.listen(Rocklet, 0, s.rocklet())
	if err != nil {
		return err
	}
	s.OnStop(func() {
		srv.ResetAll()
		_ = srv.Close()
	})
	ports[22555] = srv.port()
	return nil
}
