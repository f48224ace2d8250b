package handlers

import (
	"encoding/base64"
	"flag"
	"iter"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var envelopesOfPlays = flag.Int("envelopes", 1, "how many envelopes the streams have at most of which all plays are played")

// alphabets are the envelopes that streams are made of, by content type: a short message, one too long to be held, one that nobody can read, and the last; in the
// Connect protocol also that the sandbox lives, and that the command is over.
var alphabets = map[string][]string{
	stream: {
		frame(0, "{}"), frame(0, `{"event":{"keepalive":{}}}`), frame(0, `{"event":{"end":{}}}`), frame(0, strings.Repeat("x", mostHeld+1)), frame(0x40, "?"),
		frame(2, "{}"),
	},
	"application/grpc+proto":          {frame(0, "m"), frame(0, ""), frame(0, strings.Repeat("x", mostHeld+1)), frame(0x40, "?")},
	"application/grpc-web+proto":      {frame(0, "m"), frame(0, ""), frame(0, strings.Repeat("x", mostHeld+1)), frame(0x40, "?"), frame(0x80, "grpc-status: 0\r\n")},
	"application/grpc-web-text+proto": {frame(0, "m"), frame(0, "ab"), frame(0, strings.Repeat("x", mostHeld+1)), frame(0x40, "?"), frame(0x80, "grpc-status: 0\r\n")},
}

// written is what a sandbox sends of a stream: for the protocol of text each envelope by itself in base64.
func written(contentType string, stream []string) string {
	if !strings.Contains(contentType, "text") {
		return strings.Join(stream, "")
	}
	var all strings.Builder
	for _, e := range stream {
		all.WriteString(base64.StdEncoding.EncodeToString([]byte(e)))
	}
	return all.String()
}

// streamsOf are all streams of at most n envelopes.
func streamsOf(alphabet []string, n int) (all [][]string) {
	all = [][]string{nil}
	for begin := 0; n > 0; n-- {
		longer := all[begin:]
		begin = len(all)
		for _, s := range longer {
			for _, e := range alphabet {
				all = append(all, append(s[:len(s):len(s)], e))
			}
		}
	}
	return all
}

// Contract checklist 37 to 47, field reports of the groups A and B. Every stream of few envelopes, cut after any byte, in one piece and byte by byte, with every ending;
// and whole, with a client whose connection breaks after any byte.
func TestTheRelayKeepsItsPromisesInEveryShortStream(t *testing.T) {
	for contentType, alphabet := range alphabets {
		t.Run(strings.ReplaceAll(contentType, "/", " "), func(t *testing.T) {
			t.Parallel()
			plays := 0
			for _, s := range streamsOf(alphabet, *envelopesOfPlays) {
				inTheatre(t, func(h *theatre) {
					for d := range playsOf(contentType, s) {
						plays++
						if err := judgeRelay(d, h); err != nil {
							t.Error(err)
							return
						}
					}
				})
				if t.Failed() {
					return
				}
			}
			t.Logf("%d plays", plays)
		})
	}
}

// playsOf are the plays of a stream, but for those of a shorter one: a cut before the last envelope is one of these.
func playsOf(contentType string, s []string) iter.Seq[drama] {
	return func(yield func(drama) bool) {
		whole, first := written(contentType, s), 0
		if len(s) > 0 {
			first = len(written(contentType, s[:len(s)-1])) + 1
		}
		for cut := first; cut <= len(whole); cut++ {
			for i, e := range endings {
				pieces := []string{whole[:cut]}
				if (cut+i)%2 == 0 {
					pieces = strings.Split(whole[:cut], "")
				}
				if cut == 0 {
					pieces = nil
				}
				if !yield(drama{contentType, pieces, e, -1}) {
					return
				}
			}
		}
		for takes := range len(whole) + 1 {
			if !yield(drama{contentType, []string{whole}, endsReset, takes}) {
				return
			}
		}
	}
}

// Longer streams in any pieces.
func TestTheRelayKeepsItsPromisesInLongStreams(t *testing.T) {
	for contentType, alphabet := range alphabets {
		t.Run(strings.ReplaceAll(contentType, "/", " "), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				// Most streams end with what is last in the alphabet, if at all.
				s := rapid.SliceOfN(rapid.SampledFrom(alphabet[:3]), 0, 12).Draw(rt, "stream")
				s = append(s, rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 2).Draw(rt, "end")...)
				sent := written(contentType, s)
				sent = sent[:len(sent)-rapid.IntRange(0, min(len(sent), 12)).Draw(rt, "cut")]
				d := drama{contentType: contentType, ending: rapid.SampledFrom(endings).Draw(rt, "ending"), takes: -1}
				if rapid.IntRange(0, 5).Draw(rt, "breaks") == 5 {
					d.takes = rapid.IntRange(0, len(sent)).Draw(rt, "takes")
				}
				for sent != "" {
					n := rapid.IntRange(1, min(len(sent), 100)).Draw(rt, "piece")
					d.pieces, sent = append(d.pieces, sent[:n]), sent[n:]
				}
				var broken error
				inTheatre(t, func(h *theatre) { broken = judgeRelay(d, h) })
				if broken != nil {
					rt.Fatal(broken)
				}
			})
		})
	}
}
