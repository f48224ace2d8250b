package envd

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// envelope frames one JSON message as the Connect protocol does: flags, length, bytes.
func envelope(message string) string {
	return "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(message)))) + message
}

// envelopes takes a stream apart into "<flags> <compact JSON>".
func envelopes(t *testing.T, body string) []string {
	t.Helper()
	var all []string
	for len(body) > 0 {
		if len(body) < 5 || len(body) < 5+int(binary.BigEndian.Uint32([]byte(body[1:5]))) {
			t.Fatalf("incomplete envelope %q", body)
		}
		end := 5 + int(binary.BigEndian.Uint32([]byte(body[1:5])))
		var value any
		if err := json.Unmarshal([]byte(body[5:end]), &value); err != nil {
			t.Fatalf("envelope %q: %v", body[:end], err)
		}
		compact, err := json.Marshal(value) // protojson varies its white space on purpose
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%d %s", body[0], compact))
		body = body[end:]
	}
	return all
}

// sdkHeaders are what Python's SDK 2.34.0 sends with a streaming call.
func sdkHeaders() http.Header {
	return http.Header{
		"Content-Type":             {"application/connect+json"},
		"Connect-Protocol-Version": {"1"},
		"Connect-Content-Encoding": {"identity"},
		"Accept-Encoding":          {"gzip, deflate"},
		"Keepalive-Ping-Interval":  {"50"},
		"Authorization":            {"Basic dXNlcjo="},
	}
}

func TestAStreamAsTheSDKsReadIt(t *testing.T) {
	s := open(t, Options{})
	request := `{"process":{"cmd":"/bin/bash","args":["-l","-c","printf hi; exit 7"],"envs":{}},"stdin":false}`
	resp, body := s.do(t, http.MethodPost, "/process.Process/Start", sdkHeaders(), strings.NewReader(envelope(request)))
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/connect+json" ||
		resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Connect-Content-Encoding") != "" {
		t.Fatalf("status %d, header %v", resp.StatusCode, resp.Header)
	}
	got := envelopes(t, body)
	if len(got) != 4 || !strings.HasPrefix(got[0], `0 {"event":{"start":{"pid":`) {
		t.Fatalf("stream %q", got)
	}
	for i, want := range []string{
		1: `0 {"event":{"data":{"stdout":"` + base64.StdEncoding.EncodeToString([]byte("hi")) + `"}}}`,
		2: `0 {"event":{"end":{"error":"exit status 7","exitCode":7,"exited":true,"status":"exit status 7"}}}`,
		3: `2 {}`,
	} {
		if i > 0 && got[i] != want {
			t.Errorf("envelope %d is %s, want %s", i, got[i], want)
		}
	}
}

func TestAFailedStreamIsA200WithOneEndStream(t *testing.T) {
	s := open(t, Options{})
	resp, body := s.do(t, http.MethodPost, "/process.Process/Connect", sdkHeaders(), strings.NewReader(envelope(`{"process":{"pid":1}}`)))
	got := envelopes(t, body)
	if resp.StatusCode != 200 || len(got) != 1 || got[0] != `2 {"error":{"code":"not_found","message":"process with pid 1 not found"}}` {
		t.Errorf("status %d, stream %q", resp.StatusCode, got)
	}
}

func TestUnaryCallsAsTheSDKsReadThem(t *testing.T) {
	s := open(t, Options{})
	s.put(t, "/home/user/f", "123")
	header := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"identity"}, "Accept-Encoding": {"gzip, deflate"}}
	resp, body := s.do(t, http.MethodPost, "/filesystem.Filesystem/Stat", header, strings.NewReader("{\n  \"path\": \"f\"\n}"))
	var got struct{ Entry map[string]any }
	if err := json.Unmarshal([]byte(body), &got); err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Encoding") != "" {
		t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	// protojson writes 64-bit numbers as strings.
	for key, want := range map[string]any{"name": "f", "path": "/home/user/f", "type": "FILE_TYPE_FILE", "size": "3", "mode": float64(0o640), "permissions": "-rw-r-----"} {
		if got.Entry[key] != want {
			t.Errorf("%s is %v, want %v", key, got.Entry[key], want)
		}
	}
	modified, _ := got.Entry["modifiedTime"].(string)
	if _, err := time.Parse(time.RFC3339Nano, modified); err != nil {
		t.Errorf("modifiedTime %q: %v", modified, err)
	}
	resp, body = s.do(t, http.MethodPost, "/filesystem.Filesystem/Stat", header, strings.NewReader(`{"path":"none"}`))
	if resp.StatusCode != 404 || !strings.Contains(body, `"code":"not_found"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func FuzzPathsStayAbsoluteAndClean(f *testing.F) {
	for _, p := range []string{"", "/", "a/../..", "~", "~/..", "~x", "//a", "a\x00b", "./.", "/../~"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		got, err := (tree{}).abs(p)
		if err != nil {
			return
		}
		if !strings.HasPrefix(got, "/") || strings.Contains(got+"/", "/../") || strings.Contains(got, "//") {
			t.Errorf("%q became %q", p, got)
		}
	})
}

func FuzzHeadersOfClients(f *testing.F) {
	for _, v := range []string{"", "50", "0.01", "-1", "NaN", "Inf", "1e300", "gzip;q=", "gzip;q=0.0, gzip", ";;,"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		header := http.Header{"Keepalive-Ping-Interval": {v}, "Accept-Encoding": {v}}
		if got := keepaliveInterval(header); got < time.Millisecond {
			t.Errorf("%q gives a keepalive every %v", v, got)
		}
		if acceptsGzip(header) && !strings.Contains(strings.ToLower(v), "gzip") {
			t.Errorf("%q is taken for gzip", v)
		}
	})
}
