package bench

import "bytes"

// content checks bytes that are one pattern, over and over, and then an end.
type content struct {
	pattern []byte // repeated, so that a piece is compared at once
	period  int64
	whole   int64 // bytes of patterns
	end     []byte
	at      int64 // bytes seen
}

// longest is the longest piece that is compared at once, in bytes.
const longest = 256 << 10

// repeated makes the pattern of a content.
func repeated(period []byte) []byte { return bytes.Repeat(period, longest/len(period)+2) }

var messages, blocks = repeated(message), repeated([]byte("0123456789abcdef"))

// streamOf is the content of a stream of n messages.
func streamOf(n int) *content {
	return &content{pattern: messages, period: int64(len(message)), whole: int64(n) * int64(len(message)), end: endStream}
}

// fileOf is that of a file.
func fileOf(size int64) *content { return &content{pattern: blocks, period: 16, whole: size} }

// take checks the next piece.
func (c *content) take(piece []byte) error {
	for len(piece) > 0 {
		want := c.end[min(max(0, c.at-c.whole), int64(len(c.end))):]
		if c.at < c.whole {
			from := c.at % c.period
			want = c.pattern[from : from+min(longest, c.whole-c.at)]
		}
		n := min(len(want), len(piece))
		if n == 0 || !bytes.Equal(want[:n], piece[:n]) {
			return errOtherAnswer
		}
		c.at += int64(n)
		piece = piece[n:]
	}
	return nil
}

// done reports whether all of it has come.
func (c *content) done() bool { return c.at == c.whole+int64(len(c.end)) }
