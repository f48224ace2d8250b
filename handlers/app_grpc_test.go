package handlers

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestWholeMessagesAreToldFromTornOnesHoweverTheyCome(t *testing.T) {
	const sent = "\x00\x00\x00\x00\x03abc" + "\x01\x00\x00\x00\x00" + "\x00\x00\x00\x00\x01d"
	ends := map[int]bool{0: true, 8: true, 13: true, len(sent): true}
	for size := 1; size <= len(sent); size++ {
		for end := 0; end <= len(sent); end++ {
			var got bytes.Buffer
			m := &messages{Writer: &got}
			for rest := sent[:end]; rest != ""; {
				n := min(size, len(rest))
				if _, err := io.WriteString(m, rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if m.whole() != ends[end] || got.String() != sent[:end] {
				t.Fatalf("%d bytes by %d: whole is %v, %q", end, size, m.whole(), got.String())
			}
		}
	}
}

func TestAStreamThatAnAppHasResetIsKnownByItsError(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err = io.ReadAll(resp.Body); resp.ProtoMajor != 2 || !resetByApp(err) {
		t.Errorf("HTTP/%d: %v", resp.ProtoMajor, err)
	}
	for _, other := range []error{nil, io.ErrUnexpectedEOF, errors.New("x")} {
		if resetByApp(other) {
			t.Error(other)
		}
	}
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x03abc"), 2)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		if cut < 0 || cut > len(b) {
			return
		}
		var once, twice bytes.Buffer
		m, n := &messages{Writer: &once}, &messages{Writer: &twice}
		_, _ = m.Write(b)
		_, _ = n.Write(b[:cut])
		_, _ = n.Write(b[cut:])
		if m.whole() != n.whole() || !bytes.Equal(once.Bytes(), b) || !bytes.Equal(twice.Bytes(), b) {
			t.Fatalf("%q cut at %d", b, cut)
		}
	})
}
