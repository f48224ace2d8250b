package handlers

import "net/http"

// Two systems name what several programs do for one request: W3C's Trace Context,
// which collectors of traces read, and EagleEye's id, which ROCK writes into each
// line of its log, as it came. They are joined: ROCK is told the trace-id of the
// first as the second. ROCK makes up ids of the same form where it is told none.
//
// What is malformed ends here. An id of any characters could be taken for lines of
// ROCK's log, and one of any length fills it.

// The headers of traces, as net/http spells them.
const (
	headerTraceparent = "Traceparent"
	headerTracestate  = "Tracestate"
	headerEagleEye    = "Eagleeye-Traceid"
)

// maxTracestate is how long a tracestate may be, in bytes: what everybody must pass
// on at least (W3C Trace Context, section 3.3.1.5).
const maxTracestate = 512

// setTrace sends the names of a trace on, those of src that are well-formed and else
// that of the trail.
func (p *parts) setTrace(dst, src http.Header, trail *Trail) {
	id, standard := traceID(src)
	if standard {
		dst[headerTraceparent] = src[headerTraceparent]
		if visible(src[headerTracestate], maxTracestate) {
			dst[headerTracestate] = src[headerTracestate]
		}
	}
	if id == "" && trail != nil {
		id = trail.TraceID
	}
	if id != "" {
		p.traceID[0] = id
		dst[headerEagleEye] = p.traceID[:]
	}
}

// traceOf is what the programs before this one call a request, "" if they say nothing
// that is well-formed.
func traceOf(h http.Header) string {
	id, _ := traceID(h)
	return id
}

// traceID is traceOf. standard: it is that of a traceparent, which wins.
func traceID(h http.Header) (id string, standard bool) {
	if parents := h[headerTraceparent]; len(parents) == 1 {
		if id := traceparent(parents[0]); id != "" {
			return id, true
		}
	}
	return sole(h, headerEagleEye), false
}

// traceparent is the trace-id of a traceparent, "" if it is malformed (W3C Trace
// Context, section 3.2): 00-<32 hexadecimal digits>-<16>-<2>, in lower case. A later
// version may have more behind that.
func traceparent(v string) string {
	const id, parent, flags, length = 3, 36, 53, 55
	switch {
	case len(v) < length, v[id-1] != '-', v[parent-1] != '-', v[flags-1] != '-':
		return ""
	case !hexadecimal(v[:id-1]), !hexadecimal(v[id : parent-1]), !hexadecimal(v[parent : flags-1]), !hexadecimal(v[flags:length]):
		return ""
	case v[:id-1] == "ff", zero(v[id : parent-1]), zero(v[parent : flags-1]):
		return ""
	case len(v) > length && (v[:id-1] == "00" || v[length] != '-' || !visible([]string{v}, maxTracestate)):
		return ""
	}
	return v[id : parent-1]
}

func hexadecimal(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func zero(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '0' {
			return false
		}
	}
	return true
}

// visible reports values that are there, of visible characters and spaces, and not
// longer than that many bytes together.
func visible(values []string, longest int) bool {
	total := 0
	for _, v := range values {
		total += len(v)
		for i := 0; i < len(v); i++ {
			if v[i] < ' ' || v[i] > '~' {
				return false
			}
		}
	}
	return total > 0 && total <= longest
}

// longestID is how long an id may be that somebody else has made, in bytes.
const longestID = 64

// sole is the one value of a header that holds an id, "" if there is none, or several,
// or it is none: 1 to 64 letters, digits and ".", "_", "-", as UUIDs, EagleEye's ids
// and those of load balancers are.
func sole(h http.Header, name string) string {
	values := h[name]
	if len(values) != 1 || len(values[0]) > longestID {
		return ""
	}
	v := values[0]
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return ""
		}
	}
	return v
}
