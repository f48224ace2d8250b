package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/harness"
)

const (
	// transferred is what one measurement of throughput relays, in bytes of
	// messages.
	transferred = 16 << 20
	// calls is how many calls one measurement of latency takes the median of.
	calls = 200
)

// sides are the gateway and what it is held against.
type sides struct{ gateway, stock side }

// side is a proxy and a client of its own for it.
type side struct {
	url    string
	client *http.Client
}

func start(b *testing.B, transport harness.Transport) sides {
	b.Helper()
	u := newUpstream(b)
	g := harness.Start(b, fmt.Sprintf(`{
	e2b {
		keys off
		registry static {
			sandbox bench {
				lifecycle first
			}
		}
		cluster default {
			admin http://%[1]s
			proxy http://%[1]s
		}
	}
}
:80 {
	e2b
}
:81 {
	reverse_proxy %[1]s
}
`, u.Addr()), transport)
	return sides{
		gateway: side{g.URLOf(":80"), g.Client()},
		stock:   side{g.URLOf(":81"), g.Client()},
	}
}

// call sends a streaming call for so many messages.
func (s side) call(b *testing.B, messages int) *http.Response {
	b.Helper()
	body := envelope.Append(nil, 0, []byte(`{"process":{"cmd":"/bin/cat"}}`))
	r, err := http.NewRequest(http.MethodPost, s.url+"/process.Process/Start", bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/connect+json"}, "Connect-Protocol-Version": {"1"},
		"E2b-Sandbox-Id": {"bench"}, "E2b-Sandbox-Port": {"49983"},
		messagesHeader: {fmt.Sprint(messages)},
	}
	resp, err := s.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status)
	}
	return resp
}

// cost is what one transfer took.
type cost struct {
	wall, cpu time.Duration // cpu is that of upstream, proxy and client together
}

// transfer relays a stream at full speed.
func (s side) transfer(b *testing.B) cost {
	b.Helper()
	const messages = transferred / messageSize
	begun, before := time.Now(), processor(b)
	resp := s.call(b, messages)
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || n != messages*int64(len(message))+int64(len(endStream)) {
		b.Fatalf("%d bytes, %v", n, err)
	}
	return cost{time.Since(begun), processor(b) - before}
}

// processor is the time that the process has spent on processors.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// firstByte is the time from a call to its first message.
func (s side) firstByte(b *testing.B) time.Duration {
	b.Helper()
	begun := time.Now()
	resp := s.call(b, 1)
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, envelope.PrefixSize)); err != nil {
		b.Fatal(err)
	}
	took := time.Since(begun)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		b.Fatal(err)
	}
	return took
}

// firstByte is the median of each side over calls that alternate.
func (s sides) firstByte(b *testing.B) (gateway, stock time.Duration) {
	b.Helper()
	var gateways, stocks []time.Duration
	for range calls {
		gateways = append(gateways, s.gateway.firstByte(b))
		stocks = append(stocks, s.stock.firstByte(b))
	}
	return median(gateways), median(stocks)
}

func median[T time.Duration | float64](of []T) T {
	of = slices.Clone(of)
	slices.Sort(of)
	return of[len(of)/2]
}

var transports = []harness.Transport{harness.Cleartext, harness.TLS2}

// BenchmarkRelay relays messages of 1 KiB as fast as they come. ratio is the
// gateway's throughput over that of reverse_proxy: more is better, and 0.9 is
// the least we want. cpu-ratio compares processor time, which is steadier on a
// machine that does other things too: less is better. Each figure is the median
// of as many pairs as -benchtime says.
func BenchmarkRelay(b *testing.B) {
	for _, transport := range transports {
		b.Run(string(transport), func(b *testing.B) {
			s := start(b, transport)
			s.gateway.transfer(b)
			s.stock.transfer(b)
			var speed, cpu, gateways, stocks []float64
			for i := 0; b.Loop(); i++ {
				var g, p cost
				if i%2 == 0 {
					g, p = s.gateway.transfer(b), s.stock.transfer(b)
				} else {
					p, g = s.stock.transfer(b), s.gateway.transfer(b)
				}
				speed = append(speed, float64(p.wall)/float64(g.wall))
				cpu = append(cpu, float64(g.cpu)/float64(p.cpu))
				gateways, stocks = append(gateways, transferred/g.wall.Seconds()), append(stocks, transferred/p.wall.Seconds())
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(speed), "ratio")
			b.ReportMetric(median(cpu), "cpu-ratio")
			b.ReportMetric(median(gateways)/1e6, "gateway-MB/s")
			b.ReportMetric(median(stocks)/1e6, "stock-MB/s")
		})
	}
}

// BenchmarkFirstByte measures the time from a call to its first message. ratio
// is the gateway's over that of reverse_proxy: less is better, and 1 is the most
// we want.
func BenchmarkFirstByte(b *testing.B) {
	for _, transport := range transports {
		b.Run(string(transport), func(b *testing.B) {
			s := start(b, transport)
			s.firstByte(b)
			var ratios, gateways, stocks []float64
			for b.Loop() {
				g, p := s.firstByte(b)
				ratios = append(ratios, float64(g)/float64(p))
				gateways, stocks = append(gateways, float64(g)), append(stocks, float64(p))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(gateways)/1e3, "gateway-µs")
			b.ReportMetric(median(stocks)/1e3, "stock-µs")
		})
	}
}
