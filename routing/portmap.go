package routing

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
)

// Ports maps ports inside a sandbox to the ports at which its host has them. The
// zero Ports maps none. It never changes.
//
// A sandbox has a handful: in order they take four bytes each, where a map takes a
// hundred for the first.
type Ports struct{ pairs []portPair }

type portPair struct{ inside, outside uint16 }

// PortsOf returns the mapping that m is, from inside to outside.
func PortsOf(m map[uint16]uint16) Ports {
	if len(m) == 0 {
		return Ports{}
	}
	pairs := make([]portPair, 0, len(m))
	for inside, outside := range m {
		pairs = append(pairs, portPair{inside, outside})
	}
	slices.SortFunc(pairs, func(a, b portPair) int { return int(a.inside) - int(b.inside) })
	return Ports{pairs}
}

// Outside is where the host has a port of the sandbox, false if it is not mapped.
func (p Ports) Outside(inside uint16) (outside uint16, ok bool) {
	for _, pair := range p.pairs {
		if pair.inside == inside {
			return pair.outside, true
		}
	}
	return 0, false
}

// Inside is the lowest port of the sandbox that is at a port of the host, false if
// none is.
func (p Ports) Inside(outside uint16) (inside uint16, ok bool) {
	for _, pair := range p.pairs {
		if pair.outside == outside {
			return pair.inside, true
		}
	}
	return 0, false
}

// Len is how many are mapped.
func (p Ports) Len() int { return len(p.pairs) }

// All are the pairs of inside and outside, by inside.
func (p Ports) All() iter.Seq2[uint16, uint16] {
	return func(yield func(inside, outside uint16) bool) {
		for _, pair := range p.pairs {
			if !yield(pair.inside, pair.outside) {
				return
			}
		}
	}
}

// String is "8080:31003 22555:31001 ", by inside: also what a lifecycle is made of.
func (p Ports) String() string {
	var b []byte
	for _, pair := range p.pairs {
		b = strconv.AppendUint(b, uint64(pair.inside), 10)
		b = append(b, ':')
		b = strconv.AppendUint(b, uint64(pair.outside), 10)
		b = append(b, ' ')
	}
	return string(b)
}

// ParsePortMapping reads ROCK's port_mapping, an object whose keys and values are
// numbers or strings of digits: the port inside the sandbox, and the one outside. What
// is no port is left out. problem says so, for logs.
func ParsePortMapping(field json.RawMessage) (ports Ports, problem string) {
	if len(field) == 0 || string(field) == "null" {
		return Ports{}, ""
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(field, &raw); err != nil {
		return Ports{}, "port_mapping is not an object"
	}
	read := make(map[uint16]uint16, len(raw))
	for key, value := range raw {
		digits, ok := JSONString(value)
		if !ok {
			digits = string(value)
		}
		inside, ok := ParsePort(key)
		outside, ok2 := ParsePort(digits)
		if ok && ok2 {
			read[inside] = outside
		}
	}
	if dropped := len(raw) - len(read); dropped > 0 {
		problem = fmt.Sprintf("port_mapping has %d entries that are not ports", dropped)
	}
	return PortsOf(read), problem
}

// JSONString is the content of a JSON string, which field is when it is one; it is
// known to be JSON. Most hold nothing that has to be unescaped.
func JSONString(field json.RawMessage) (content string, ok bool) {
	if len(field) < 2 || field[0] != '"' {
		return "", false
	}
	for _, c := range field[1 : len(field)-1] {
		if c == '\\' || c < ' ' || c > '~' {
			ok = json.Unmarshal(field, &content) == nil
			return content, ok
		}
	}
	return string(field[1 : len(field)-1]), true
}
