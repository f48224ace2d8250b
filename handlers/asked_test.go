package handlers

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Field report C06: what stands in the header is between the client and envd. The gateway
// keeps the deadlines that it understands, and sets none.
func TestADeadlineArrivesAsItWasSent(t *testing.T) {
	g := newRig(t)
	var got []string
	g.proxy = func(w http.ResponseWriter, r *http.Request) {
		got = r.Header["Connect-Timeout-Ms"]
		answerWith(400, unary, `{"code":"invalid_argument","message":"envd's own"}`)(w, r)
	}
	for _, value := range []string{"60000", "1500.5", "12345678901", "-1", "1e3", ""} {
		headers := []string{"Connect-Timeout-Ms", value}
		if value == "" {
			headers = nil
		}
		r := g.call(t, "POST", stat, unary, "{}", headers...)
		if _, message := r.connect(t); r.status != 400 || message != "envd's own" || len(got) != len(headers)/2 || len(got) == 1 && got[0] != value {
			t.Errorf("%q arrived as %q: %d %s", value, got, r.status, r.body)
		}
	}
}

// Field report D05: nothing is not null, and not a chunk of nothing.
func TestAControlCallWithoutABodyHasNone(t *testing.T) {
	g := newRig(t)
	got := ""
	g.admin = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %d %q %q %q", r.URL.Path, r.ContentLength, r.TransferEncoding, r.Header["Content-Type"], body)
		answerWith(400, unary, `{"code":400,"message":"timeout is required"}`)(w, r)
	}
	for _, call := range []string{"pause", "timeout", "snapshots"} {
		c := g.dial(t)
		fmt.Fprintf(c, "POST /sandboxes/a/%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", call)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer := read(t, resp.Body, int(resp.ContentLength))
		if got != "/sandboxes/a/"+call+` 0 [] [] ""` || resp.StatusCode != 400 || answer != `{"code":400,"message":"timeout is required"}` {
			t.Errorf("%s arrived as %s: %d %s", call, got, resp.StatusCode, answer)
		}
	}
}

// Field report D12: a template that there is not is the caller's mistake, and trying it
// again is no cure.
func TestACreateThatRockRefusesIsRefusedOnce(t *testing.T) {
	for _, status := range []int{400, 404, 409} {
		g := newRig(t)
		body := fmt.Sprintf(`{"code":%d,"message":"template none not found"}`, status)
		g.admin = answerWith(status, unary, body)
		r := g.send(t, "POST", "/sandboxes", unary, `{"templateID":"none"}`)
		if r.status != status || r.body != body || r.header.Get("Retry-After") != "" || g.upstreamHits.Load() != 1 {
			t.Errorf("%d became %d %v %s, after %d calls", status, r.status, r.header, r.body, g.upstreamHits.Load())
		}
	}
}

// Field report C07: ROCK pulls an image first.
func TestACreateMayTakeTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.rock = func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(10 * time.Minute):
				answerWith(201, unary, `{"sandboxID":"new"}`)(w, r)
			case <-r.Context().Done():
				t.Error("the gateway has given up")
			}
		}
		begun := time.Now()
		r := d.ask(alice, "POST", "/sandboxes", `{"templateID":"base"}`)
		if took := time.Since(begun); r.status != 201 || took != 10*time.Minute || len(d.took()) != 1 {
			t.Errorf("%d %s after %v", r.status, r.body, took)
		}
	})
}
