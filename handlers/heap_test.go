package handlers

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/heap"
)

// Field report A18: a message may be as long as it likes, and none of it is kept.
func TestAMessageOf64MiBPassesInLittleMemory(t *testing.T) {
	const size = 64 << 20
	g := newRig(t)
	g.proxy = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", stream)
		w.Write([]byte{0, size >> 24, size >> 16 & 0xff, 0, 0})
		io.Copy(w, &zeros{left: size})
		io.WriteString(w, frame(2, "{}"))
	}
	grown := heap.Watch()
	r, _ := http.NewRequest("POST", g.URL+start, strings.NewReader(""))
	r.Header = http.Header{"Content-Type": {stream}, "E2b-Sandbox-Id": {"a"}, "E2b-Sandbox-Port": {"49983"}}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, envelope.PrefixSize+size))
	rest, restErr := io.ReadAll(resp.Body)
	if err != nil || restErr != nil || n != envelope.PrefixSize+size || string(rest) != frame(2, "{}") {
		t.Errorf("%d bytes, %v, and then %q, %v", n, err, rest, restErr)
	}
	if grown := grown(); grown > 16<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}
