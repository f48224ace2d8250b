package handlers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-e2b/gateway/handlers/cause"
	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/handlers/protocol"
)

// script is what a drama's sandbox sends, read as a whole.
type script struct {
	messages []string // whole ones before the end
	ended    bool     // a last envelope follows them
	final    bool     // one of them says that the command is over
	invalid  bool     // what follows them cannot be read
	torn     bool     // what follows them is part of an envelope that is too long to be held
	half     bool     // what follows them is part of an envelope
}

func (d drama) read() (s script) {
	sent, last := strings.Join(d.pieces, ""), byte(0)
	switch d.protocol() {
	case protocol.ConnectStream:
		last = envelope.FlagEndStream
	case protocol.GRPCWeb:
		last = envelope.FlagGRPCWebTrailers
	case protocol.GRPCWebText:
		sent, last = decoded(sent), envelope.FlagGRPCWebTrailers
	}
	whole, rest := envelopes(sent)
	for _, e := range whole {
		switch flags := e[0]; {
		case flags == last && last != 0:
			s.ended = true
			return s
		case flags != 0:
			s.invalid = true
			return s
		}
		s.messages = append(s.messages, e)
		s.final = s.final || d.protocol() == protocol.ConnectStream && strings.Contains(e, `"end"`)
	}
	s.half = rest != ""
	s.invalid = s.half && rest[0] != 0 && rest[0] != last
	s.torn = !s.invalid && len(rest) >= 5 && int(rest[3])<<8|int(rest[4]) > mostHeld
	return s
}

// judgeRelay plays a drama and holds what its client has got against the promises.
func judgeRelay(d drama, h *theatre) error {
	got, out := h.perform(d)
	if err := judgeGot(d, got, out); err != nil {
		return fmt.Errorf("%v: %w\ngot %q and %v (%v)", d, err, got.body.String(), out.End, out.Err)
	}
	return nil
}

func judgeGot(d drama, got *seat, out Outcome) error {
	s := d.read()
	body := got.body.String()
	sent := strings.Join(d.pieces, "")
	if d.takes >= 0 && len(body) == d.takes || d.ending == endsLeaving && !s.ended && !s.invalid {
		switch {
		case !out.Abort && !(d.takes >= 0 && d.takes == len(body)):
			return errors.New("the client was there no more, and the call ended well")
		case d.ending == endsLeaving && d.takes < 0 && out.End != cause.ClientGone:
			return fmt.Errorf("the client left, and the call ended as %v", out.End)
		}
		return nil
	}
	if out.Abort {
		switch {
		case !s.torn && !(d.protocol() == protocol.GRPCWebText && s.half):
			return errors.New("aborted, although an end could be told")
		case !strings.HasPrefix(sent, body):
			return fmt.Errorf("aborted, and %q is no beginning of what was sent", body)
		}
		return nil
	}
	if s.torn && d.ending != endsLeaving {
		return errors.New("the call ended well inside an envelope")
	}
	if got.status != 200 {
		return fmt.Errorf("status %d", got.status)
	}
	if d.protocol() == protocol.GRPCWebText {
		body = decoded(body)
	}
	whole, rest := envelopes(body)
	if rest != "" {
		return fmt.Errorf("half an envelope: %q", rest)
	}
	end, err := theEnd(d, got, &whole)
	if err != nil {
		return err
	}
	if !slices.Equal(whole, s.messages) {
		return fmt.Errorf("%q instead of %q", whole, s.messages)
	}
	return judgeEnd(d, s, end)
}

// theEnd takes the only end off what a client has got, and returns what it says.
func theEnd(d drama, got *seat, whole *[]string) (end string, err error) {
	last := map[protocol.Protocol]byte{protocol.ConnectStream: 0x02, protocol.GRPCWeb: 0x80, protocol.GRPCWebText: 0x80}[d.protocol()]
	ends := 0
	for _, e := range *whole {
		if e[0]&last != 0 {
			ends++
			end = e[5:]
		}
	}
	status := got.header.Values("Trailer:Grpc-Status")
	if d.protocol() == protocol.GRPC {
		if len(status) != 1 {
			return "", fmt.Errorf("%d ends in the trailers", len(status))
		}
		return "grpc-status: " + status[0] + "\r\n" + got.header.Get("Trailer:Grpc-Message"), nil
	}
	n := len(*whole)
	switch {
	case ends != 1:
		return "", fmt.Errorf("%d ends", ends)
	case (*whole)[n-1][0]&last == 0:
		return "", fmt.Errorf("something follows the end: %q", (*whole)[n-1])
	}
	*whole = (*whole)[:n-1]
	return end, nil
}

// judgeEnd compares what the end says with what was true.
func judgeEnd(d drama, s script, end string) error {
	type code struct{ connect, grpc, text string }
	var want code
	switch {
	case s.ended && d.protocol() != protocol.GRPC, s.final,
		d.protocol() == protocol.GRPC && d.ending == endsTrailers && !s.half && !s.invalid:
		if strings.Contains(end, "error") || strings.Contains(end, "grpc-status") && !strings.Contains(end, "grpc-status: 0\r\n") {
			return fmt.Errorf("what ended well has ended as %q", end)
		}
		return nil
	case s.invalid && d.ending != endsDying, d.ending == endsReset, d.ending == endsEOF, d.ending == endsTrailers:
		want = code{"aborted", "10", "may still be running"}
	case d.ending == endsDying, d.ending == endsKilled:
		want = code{"unavailable", "14", "was not found"}
	case d.ending == endsDeadline:
		want = code{"deadline_exceeded", "4", ""}
	case d.ending == endsDrain:
		want = code{"aborted", "10", "restarting"}
	}
	if s.invalid { // its sandbox is asked for once more, and whether it speaks its protocol is another matter
		return nil
	}
	if d.protocol() == protocol.ConnectStream && !strings.Contains(end, `"code":"`+want.connect+`"`) ||
		d.protocol() != protocol.ConnectStream && !strings.Contains(end, "grpc-status: "+want.grpc+"\r\n") ||
		!strings.Contains(end, want.text) {
		return fmt.Errorf("the end is %q, the truth %v", end, want)
	}
	return nil
}
