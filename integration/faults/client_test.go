package faults

import (
	"fmt"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/caddy-e2b/gateway/integration/envd/processpb"
	"github.com/caddy-e2b/gateway/integration/envd/processpb/processpbconnect"
	"github.com/caddy-e2b/gateway/integration/harness"
)

// The bytes are right when a client says so: connect-go speaks all three
// protocols, and knows nothing of the table.
func TestConnectGoUnderstandsEveryEnd(t *testing.T) {
	protocols := map[string]struct {
		kind    string
		options []connect.ClientOption
	}{
		"Connect":      {"connect+proto", nil},
		"Connect JSON": {"connect+json", []connect.ClientOption{connect.WithProtoJSON()}},
		"gRPC":         {"gRPC", []connect.ClientOption{connect.WithGRPC()}},
		"gRPC-Web":     {"gRPC-Web", []connect.ClientOption{connect.WithGRPCWeb()}},
	}
	for _, transport := range harness.Transports {
		t.Run(string(transport), func(t *testing.T) {
			k, g := open(t, transport)
			var cells sync.WaitGroup
			n := 0
			for name, p := range protocols {
				if p.kind == "gRPC" && transport != harness.TLS2 {
					continue // connect-go's gRPC needs HTTP/2
				}
				for _, tc := range []struct {
					place place
					fault fault
					code  connect.Code // 0: none
				}{
					{beforeHead, reset, connect.CodeAborted}, {beforeHead, resetG, connect.CodeUnavailable},
					{afterHead, fin, connect.CodeAborted}, {midPrefix, resetP, connect.CodeFailedPrecondition},
					{midPayload, clean, connect.CodeAborted}, {afterFirst, killed, connect.CodeUnavailable},
					{afterEnd, reset, 0}, {afterClose, clean, 0},
				} {
					n++
					id := fmt.Sprintf("client-%d", n)
					c := &cell{kind: kindOf(p.kind), place: tc.place, fault: tc.fault, sandbox: id, cluster: k}
					k.add(id, c.play)
					what := fmt.Sprintf("%s, %s, %s", name, placeNames[tc.place], faultNames[tc.fault])
					client := processpbconnect.NewProcessClient(g.Client(), g.URL, p.options...)
					cells.Go(func() {
						events, err := receive(t, client, id, func() {
							if tc.fault == killed {
								k.kill(t, &g.Endpoint, id)
							}
						})
						if code := connect.CodeOf(err); err != nil && code != tc.code || (err == nil) != (tc.code == 0) {
							t.Errorf("%s: %v", what, err)
						}
						var want int
						switch {
						case tc.place >= afterEnd:
							want = 2
						case tc.place >= afterFirst:
							want = 1
						}
						if events != want {
							t.Errorf("%s: %d events, want %d", what, events, want)
						}
					})
				}
			}
			cells.Wait()
		})
	}
}

// receive starts a command and counts its events. first is called at the first
// one.
func receive(t *testing.T, client processpbconnect.ProcessClient, sandbox string, first func()) (events int, err error) {
	r := connect.NewRequest(&processpb.StartRequest{Process: &processpb.ProcessConfig{Cmd: "x"}})
	r.Header().Set("E2b-Sandbox-Id", sandbox)
	r.Header().Set("E2b-Sandbox-Port", "49983")
	stream, err := client.Start(t.Context(), r)
	if err != nil {
		return 0, err
	}
	for stream.Receive() {
		if events++; events == 1 {
			first()
		}
	}
	defer stream.Close()
	return events, stream.Err()
}
