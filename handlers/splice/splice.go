// Package splice changes members of JSON objects and elements of arrays and
// leaves every other byte as it is: clients and ROCK see the numbers, the order
// and the spaces that the other one wrote.
package splice

import (
	"bytes"
	"encoding/json"
)

// Node is a JSON object or array, taken apart one level deep. Its items are
// counted from 0. Changes show in Bytes only.
type Node struct {
	raw    []byte
	object bool
	open   int // of the bracket in raw
	items  []item
	added  []byte // members to come behind the items, with commas between them
	edited bool
}

// item is a member or an element: raw[start:end], of which raw[value:end] is
// the value.
type item struct {
	name              string
	start, value, end int
	text              []byte // instead of the value
	removed           bool
}

// Parse takes raw apart. It reports false for what is no JSON, or neither an
// object nor an array.
func Parse(raw []byte) (*Node, bool) {
	if !json.Valid(raw) {
		return nil, false
	}
	return take(raw)
}

// Child is Parse for the value of an item, which is known to be JSON.
func (n *Node) Child(i int) (*Node, bool) { return take(n.Value(i)) }

// take needs JSON, so that it need not look at what it skips.
func take(raw []byte) (*Node, bool) {
	n := &Node{raw: raw, open: space(raw, 0)}
	switch raw[n.open] {
	case '{':
		n.object = true
	case '[':
	default:
		return nil, false
	}
	for at := space(raw, n.open+1); raw[at] != '}' && raw[at] != ']'; {
		it := item{start: at, value: at}
		if n.object {
			end := skip(raw, at)
			if json.Unmarshal(raw[at:end], &it.name) != nil {
				return nil, false
			}
			it.value = space(raw, space(raw, end)+1) // behind the colon
		}
		it.end = skip(raw, it.value)
		n.items = append(n.items, it)
		if at = space(raw, it.end); raw[at] == ',' {
			at = space(raw, at+1)
		}
	}
	return n, true
}

// space is where the next byte that is none of JSON's spaces is.
func space(raw []byte, at int) int {
	for raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n' || raw[at] == '\r' {
		at++
	}
	return at
}

// skip is where the value that begins at at ends.
func skip(raw []byte, at int) int {
	depth := 0
	for ; at < len(raw); at++ {
		switch raw[at] {
		case '"':
			for at++; raw[at] != '"'; at++ {
				if raw[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at // of what a number or a word is in
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return at
			}
		}
	}
	return at
}

// IsObject tells an object from an array.
func (n *Node) IsObject() bool { return n.object }

// Len is the number of items, removed ones included and added ones not.
func (n *Node) Len() int { return len(n.items) }

// Name is the name of a member, "" for an element.
func (n *Node) Name(i int) string { return n.items[i].name }

// Value is the JSON of a member's or an element's value, before any change.
func (n *Node) Value(i int) []byte { return n.raw[n.items[i].value:n.items[i].end] }

// Text is the value of an item if that is a string.
func (n *Node) Text(i int) (s string, ok bool) {
	v := n.Value(i)
	return s, v[0] == '"' && json.Unmarshal(v, &s) == nil
}

// Find is the last member with the name, which is the one that counts for all
// who do not refuse doubles; -1 when there is none.
func (n *Node) Find(name string) int {
	for i := len(n.items) - 1; i >= 0; i-- {
		if n.object && n.items[i].name == name {
			return i
		}
	}
	return -1
}

// Set replaces a value by other JSON.
func (n *Node) Set(i int, value []byte) {
	if bytes.Equal(value, n.Value(i)) {
		return
	}
	n.items[i].text, n.edited = value, true
}

// Remove takes an item out.
func (n *Node) Remove(i int) { n.items[i].removed, n.edited = true, true }

// Add puts a member behind the last one of an object.
func (n *Node) Add(name string, value []byte) {
	if n.added != nil {
		n.added = append(n.added, ',')
	}
	n.added = append(append(append(n.added, Quote(name)...), ':'), value...)
	n.edited = true
}

// Quote is the JSON of a string.
func Quote(s string) []byte {
	b, _ := json.Marshal(s) // a string always has one
	return b
}

// Bytes is the JSON with all changes. Without any it is what Parse was given.
func (n *Node) Bytes() []byte {
	if !n.edited {
		return n.raw
	}
	head, tail := n.open+1, n.open+1
	if len(n.items) > 0 {
		head, tail = n.items[0].start, n.items[len(n.items)-1].end
	}
	b := make([]byte, 0, len(n.raw)+len(n.added)+1)
	b = append(b, n.raw[:head]...)
	empty := true
	for i, it := range n.items {
		if it.removed {
			continue
		}
		if !empty {
			b = append(b, n.raw[n.items[i-1].end:it.start]...)
		}
		empty = false
		b = append(b, n.raw[it.start:it.value]...)
		if it.text != nil {
			b = append(b, it.text...)
		} else {
			b = append(b, n.raw[it.value:it.end]...)
		}
	}
	if n.added != nil {
		if !empty {
			b = append(b, ',')
		}
		b = append(b, n.added...)
	}
	return append(b, n.raw[tail:]...)
}
