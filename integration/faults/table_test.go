package faults

// place is where in an answer something goes wrong.
type place int

const (
	beforeHead place = iota // not a byte was sent
	afterHead               // status and headers were sent
	afterFirst              // a whole message was sent
	midPrefix               // and three bytes of the next
	midPayload              // and its prefix and a part of the payload
	afterEnd                // the whole message that says that the process is over
	afterClose              // EndStream, or whatever ends the body in the protocol, but not the HTTP body
	places
)

var placeNames = [places]string{"before headers", "after headers", "after a message", "mid-prefix", "mid-payload", "after end event", "after EndStream"}

// fault is what goes wrong there.
type fault int

const (
	reset   fault = iota // RST, and the sandbox is still registered
	resetG               // RST, and the sandbox's record is gone
	resetP               // RST, and the sandbox is paused
	fin                  // FIN without the end of the HTTP body
	clean                // the HTTP body ends as it should
	silence              // nothing more comes, until the client's deadline
	killed               // nothing more comes, and the sandbox is killed through the gateway
	faults
)

var faultNames = [faults]string{"RST", "RST, gone", "RST, paused", "FIN", "clean end", "silence", "silence, killed"}

// A cell says what the client gets:
//
//	1      the first message, or first piece of a body without messages
//	2      the second message, which says that the process is over
//	c      what closes the body in the protocol, as the sandbox sent it
//	~      what was sent of an unfinished piece of a body without messages
//	ok     the gateway's own closing of the body: success
//	lost, early, late, gone, paused
//	       the gateway's own closing: the failure of that name (see texts);
//	       when nothing was told yet, the whole answer
//	cut    nothing more, and a visibly broken transport
//	-      there is no such fault
//
// Unless it says cut, the answer ends as the protocol has it.
type table [places][faults]string

// tables are the truth by the name of the kind.
var tables = map[string]*table{
	"connect+json":  &stream,
	"connect+proto": &stream,
	"gRPC":          &stream,
	"gRPC-Web":      &stream,
	"gRPC-Web text": &stream,
	"unary":         &sized,
	"file":          &sized,
	"SSE":           &chunked,
}

// stream: whole messages, and one closing, always. Once the process is over
// its result is delivered whatever happens afterwards.
var stream = table{
	//          RST       RST, gone  RST, paused  FIN       clean end  silence  killed
	beforeHead: {"lost", "gone", "paused", "lost", "-", "late", "gone"},
	afterHead:  {"lost", "gone", "paused", "lost", "early", "late", "gone"},
	afterFirst: {"1 lost", "1 gone", "1 paused", "1 lost", "1 early", "1 late", "1 gone"},
	midPrefix:  {"1 lost", "1 gone", "1 paused", "1 lost", "1 early", "1 late", "1 gone"},
	midPayload: {"1 lost", "1 gone", "1 paused", "1 lost", "1 early", "1 late", "1 gone"},
	afterEnd:   {"1 2 ok", "1 2 ok", "1 2 ok", "1 2 ok", "1 2 ok", "1 2 ok", "1 2 ok"},
	afterClose: {"1 2 c", "1 2 c", "1 2 c", "1 2 c", "1 2 c", "1 2 c", "1 2 c"},
}

// sized: a body of known length, short enough for the gateway to wait for all of it
// before it says anything. Calls with such bodies are not ended with their sandbox: they
// have deadlines of their own.
var sized = table{
	//          RST       RST, gone  RST, paused  FIN       clean end  silence  killed
	beforeHead: {"lost", "gone", "paused", "lost", "-", "late", "-"},
	afterHead:  {"lost", "gone", "paused", "lost", "-", "late", "-"},
	afterFirst: {"lost", "gone", "paused", "lost", "-", "late", "-"},
	midPrefix:  {"lost", "gone", "paused", "lost", "-", "late", "-"},
	midPayload: {"lost", "gone", "paused", "lost", "-", "late", "-"},
	afterEnd:   {"lost", "gone", "paused", "lost", "-", "late", "-"},
	afterClose: {"1 2 c", "1 2 c", "1 2 c", "1 2 c", "1 2 c", "1 2 c", "-"},
}

// chunked: a body of unknown length that is not made of frames. It is whole
// when HTTP says so, and that only.
var chunked = table{
	//          RST       RST, gone  RST, paused  FIN       clean end  silence  killed
	beforeHead: {"lost", "gone", "paused", "lost", "-", "late", "-"},
	afterHead:  {"cut", "cut", "cut", "cut", "", "cut", "cut"},
	afterFirst: {"1 cut", "1 cut", "1 cut", "1 cut", "1", "1 cut", "1 cut"},
	midPrefix:  {"1 ~ cut", "1 ~ cut", "1 ~ cut", "1 ~ cut", "1 ~", "1 ~ cut", "1 ~ cut"},
	midPayload: {"1 ~ cut", "1 ~ cut", "1 ~ cut", "1 ~ cut", "1 ~", "1 ~ cut", "1 ~ cut"},
	afterEnd:   {"1 2 cut", "1 2 cut", "1 2 cut", "1 2 cut", "1 2", "1 2 cut", "1 2 cut"},
	afterClose: {"1 2 c cut", "1 2 c cut", "1 2 c cut", "1 2 c cut", "1 2 c", "1 2 c cut", "1 2 c cut"},
}
