package faults

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// input is an answer that a sandbox gives, and what a client gets of it.
type input struct {
	name string
	*kind
	send func(w io.Writer) // all that comes from the sandbox
	then fault             // reset, fin or silence
	want func(sandbox string) *seen
}

// gets is what a client gets: bytes, and then what a table would say.
func (k *kind) gets(body, word string) func(sandbox string) *seen {
	return func(sandbox string) *seen {
		want := &seen{status: http.StatusOK, body: body, end: whole}
		switch word {
		case "":
		case "cut":
			want.end = cut
		default:
			k.closing(want, word, sandbox)
		}
		return want
	}
}

// kindOf finds a kind by its name.
func kindOf(name string) *kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	panic(name)
}

// raw sends bytes as they are.
func raw(s string) func(io.Writer) { return func(w io.Writer) { _, _ = io.WriteString(w, s) } }

// body sends a chunked body, each piece in a chunk of its own, and its end.
func body(k *kind, header string, pieces ...string) func(io.Writer) {
	s := "HTTP/1.1 200 OK\r\nContent-Type: " + k.answerType + "\r\n" + header + "Transfer-Encoding: chunked\r\n\r\n"
	for _, p := range pieces {
		s += fmt.Sprintf("%x\r\n%s\r\n", len(p), p)
	}
	return raw(s + "0\r\n\r\n")
}

// run lets the sandbox answer each input to each sort of client.
func run(t *testing.T, inputs []input) {
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			k, g := openWith(t, transport, lines{e2b: "max_held_envelope 64KiB"})
			send := clientOf(t, &g.Endpoint)
			var cells sync.WaitGroup
			for n, in := range inputs {
				cells.Go(func() { in.run(t, k, send, fmt.Sprintf("input-%d", n)) })
			}
			cells.Wait()
		})
	}
}

func (in input) run(t *testing.T, k *cluster, send client, id string) {
	k.add(id, func(c *net.TCPConn) bool {
		in.send(c)
		switch in.then {
		case reset:
			_ = c.SetLinger(0)
		case silence:
			k.silence(id, c)
		}
		return false
	})
	got, err := send(in.call(id))
	if err != nil {
		t.Errorf("%s, %s: %v (so far %d %q)", in.kind.name, in.name, err, got.status, got.body)
		return
	}
	in.want(id).compare(t, in.kind.name+", "+in.name, got)
	if in.then == silence {
		_, left := k.silent(id)
		select {
		case <-left:
		case <-time.After(patience):
			t.Errorf("%s, %s: the gateway keeps its connection to the sandbox", in.kind.name, in.name)
		}
	}
}

// Contract checklist 47, 52, 53, 54; field reports A03, A05, A17, A18.
func TestBadInput(t *testing.T) {
	json, grpc, web := kindOf("connect+json"), kindOf("gRPC"), kindOf("gRPC-Web")
	m, e, ok := json.first, json.second, json.close
	closed := "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/connect+json\r\n\r\n"
	announced := "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n"
	huge := "\x00\xff\xff\xff\xffslow bytes"
	run(t, []input{
		{"a length too long", json, raw(fmt.Sprintf(announced, 999) + m), fin, json.gets(m, "lost")},
		{"a length too short", json, raw(fmt.Sprintf(announced, len(m)+3) + m + e + ok), fin, json.gets(m, "early")},
		{"4 GiB announced", json, body(json, "", m, huge), fin, json.gets(m+huge, "cut")},
		{"4 GiB of EndStream announced", json, raw(json.head() + json.piece(m+"\x02\xff\xff\xff\xff")), silence, json.gets(m, "odd")},
		{"one byte per segment", json, byteByByte(json, m+e+ok), fin, json.gets(m+e+ok, "")},
		{"all in one segment, empty messages too", json, body(json, "", m+frame(0, "")+m+frame(0, "")+ok), fin, json.gets(m+frame(0, "")+m+frame(0, "")+ok, "")},
		{"data after EndStream", json, body(json, "", m, ok+m, e), fin, json.gets(m+ok, "")},
		{"two EndStreams", json, body(json, "", m, ok, frame(2, `{"error":{"code":"internal","message":"x"}}`)), fin, json.gets(m+ok, "")},
		{"garbage after EndStream", json, raw(json.head() + json.piece(m+ok) + "no chunk"), fin, json.gets(m+ok, "")},
		{"EndStream, and the connection stays open", json, raw(json.head() + json.piece(m+ok)), silence, json.gets(m+ok, "")},
		{"EndStream of null", json, body(json, "", m, frame(2, "null")), fin, json.gets(m, "odd")},
		{"EndStream of an array", json, body(json, "", m, frame(2, "[]")), fin, json.gets(m, "odd")},
		{"EndStream of nothing", json, body(json, "", m, frame(2, "")), fin, json.gets(m, "odd")},
		{"EndStream of a page", json, body(json, "", m, frame(2, "<html>")), fin, json.gets(m, "odd")},
		{"EndStream whose error is null", json, body(json, "", m, frame(2, `{"error":null}`)), fin, json.gets(m, "odd")},
		{"EndStream whose error is a text", json, body(json, "", m, frame(2, `{"error":"x"}`)), fin, json.gets(m, "odd")},
		{"an unknown flag", json, raw(json.head() + json.piece(m+frame(4, "x")+ok)), silence, json.gets(m, "odd")},
		{"the flag of gRPC-Web", json, body(json, "", m, frame(0x80, "grpc-status: 0\r\n")), fin, json.gets(m, "odd")},
		{"a compressed message nobody asked for", json, body(json, "", m, frame(1, "packed"), ok), fin, json.gets(m, "odd")},
		{"a compressed message", json, body(json, "Connect-Content-Encoding: gzip\r\n", m, frame(1, "packed"), frame(3, "packed")), fin, json.gets(m+frame(1, "packed")+frame(3, "packed"), "")},
		{"a body that ends with its connection", json, raw(closed + m + e + ok), fin, json.gets(m+e+ok, "")},
		{"the same, without EndStream", json, raw(closed + m), fin, json.gets(m, "early")},
		{"the same, in an envelope", json, raw(closed + m + e[:9]), fin, json.gets(m, "early")},
		{"the same, empty", json, raw(closed), fin, json.gets("", "early")},
		{"HTTP/1.0", json, raw(strings.Replace(closed, "1.1", "1.0", 1) + m + ok), fin, json.gets(m+ok, "")},
		{"HTTP/1.0 without EndStream", json, raw(strings.Replace(closed, "1.1", "1.0", 1) + m), fin, json.gets(m, "early")},
		{"1000 interim answers", json, interim(1000, body(json, "", m, ok)), fin, json.gets(m+ok, "")},
		{"endless interim answers", json, interim(1<<62, nil), reset, json.gets("", "lost")},
		{"a head that is too long", json, raw("HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nX-Long: " + strings.Repeat("x", 300<<10) + "\r\n\r\n"), fin, json.gets("", "lost")},
		{"half a head", json, raw("HTTP/1.1 200 OK\r\nContent-Type: applic"), fin, json.gets("", "lost")},
		{"no head", json, raw("\x00\x01\x02\r\n\r\n"), fin, json.gets("", "lost")},
		{"a chunk without a size", json, raw(json.head() + json.piece(m) + "zz\r\nx\r\n"), fin, json.gets(m, "lost")},
		{"a chunk of 2^64 bytes", json, raw(json.head() + json.piece(m) + "10000000000000000\r\n"), fin, json.gets(m, "lost")},
		{"a header of another protocol", json, raw(strings.Replace(json.head(), "\r\n", "\r\nGrpc-Status: 0\r\n", 1) + json.piece(m)), fin, json.gets(m, "lost")},
		{"an empty answer of known length", json, raw("HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nContent-Length: 0\r\n\r\n"), fin, json.gets("", "early")},

		{"trailers without a status", grpc, raw(grpc.head() + grpc.piece(grpc.first) + "0\r\nX-Own: x\r\n\r\n"), fin, grpc.gets(grpc.first, "early")},
		{"a trailer frame of gRPC-Web", grpc, body(grpc, "", grpc.first, web.close), fin, grpc.gets(grpc.first, "odd")},
		{"an envelope's unknown flag", grpc, raw(grpc.head() + grpc.piece(grpc.first+frame(2, "{}"))), silence, grpc.gets(grpc.first, "odd")},
		{"a compressed message nobody asked for", grpc, body(grpc, "", frame(1, "packed")), fin, grpc.gets("", "odd")},
		{"4 GiB announced", grpc, body(grpc, "", grpc.first, huge), fin, grpc.gets(grpc.first+huge, "cut")},

		{"data after the trailers", web, body(web, "", web.first, web.close+web.first, web.close), fin, web.gets(web.first+web.close, "")},
		{"trailers, and the connection stays open", web, raw(web.head() + web.piece(web.first+web.close)), silence, web.gets(web.first+web.close, "")},
		{"trailers without a status", web, body(web, "", web.first, frame(0x80, "x-own: x\r\n")), fin, web.gets(web.first, "odd")},
		{"4 GiB announced", web, body(web, "", web.first, huge), fin, web.gets(web.first+huge, "cut")},
	})
}

// interim sends that many interim answers before the answer, as long as
// somebody reads them.
func interim(n int, then func(io.Writer)) func(io.Writer) {
	return func(w io.Writer) {
		block := strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 100)
		for sent := 0; sent < n; sent += 100 {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
		then(w)
	}
}

// byteByByte sends a chunked answer in segments of one byte.
func byteByByte(k *kind, s string) func(io.Writer) {
	return func(w io.Writer) {
		for _, b := range []byte(k.head() + k.piece(s) + "0\r\n\r\n") {
			if _, err := w.Write([]byte{b}); err != nil {
				return
			}
		}
	}
}

// Contract checklist 42: a connection that the client wants closed ends in an
// orderly way, over TLS with close_notify, behind an end in the protocol.
// Field report A01.
func TestAConnectionThatClosesDoesSoBehindTheEnd(t *testing.T) {
	for _, transport := range []harness.Transport{harness.Cleartext, harness.TLS1} {
		t.Run(string(transport), func(t *testing.T) {
			k, g := open(t, transport)
			send := clientOf(t, &g.Endpoint)
			json := kindOf("connect+json")
			k.add("closes", func(c *net.TCPConn) bool {
				raw(json.head() + json.piece(json.first))(c)
				_ = c.SetLinger(0)
				return false
			})
			got, err := send(json.call("closes", [2]string{"Connection", "close"}))
			if err != nil {
				t.Fatal(err)
			}
			want := json.gets(json.first, "lost")("closes")
			want.end = last
			want.compare(t, "connect+json", got)
		})
	}
}
