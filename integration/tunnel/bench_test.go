package tunnel

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// BenchmarkThroughput relays an answer, and a request's body, of 64 MiB from a
// port that the record maps and from one behind the rocklet, in turn. ratio is the
// tunnel's throughput over that of the mapped port: more is better. The double's
// rocklet is written in Go; ROCK's, in Python, is slower than the gateway by far.
func BenchmarkThroughput(b *testing.B) {
	const size = 64 << 20
	s := build(b, "")
	g := inprocess.Start(b, s.config)
	box := s.create(b, "a")
	for _, port := range []int{hidden, published} {
		serve(b, box, port, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				io.Copy(io.Discard, r.Body)
				return
			}
			piece := make([]byte, 64<<10)
			for range size / len(piece) {
				w.Write(piece)
			}
		})
	}
	client := g.Client()
	transfer := func(method string, port int) time.Duration {
		var body io.Reader
		if method == http.MethodPost {
			body = io.LimitReader(zeros{}, size)
		}
		began := time.Now()
		resp, err := client.Do(request(b, method, g.URL, "a", port, body))
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || method == http.MethodGet && n != size {
			b.Fatal(n, err)
		}
		return time.Since(began)
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		b.Run(map[string]string{http.MethodGet: "down", http.MethodPost: "up"}[method], func(b *testing.B) {
			var ratios, tunnels, direct []float64
			for b.Loop() {
				t, d := transfer(method, hidden), transfer(method, published)
				ratios = append(ratios, float64(d)/float64(t))
				tunnels, direct = append(tunnels, size/t.Seconds()), append(direct, size/d.Seconds())
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(tunnels)/1e6, "tunnel-MB/s")
			b.ReportMetric(median(direct)/1e6, "mapped-MB/s")
		})
	}
}

// BenchmarkFirstRequest measures the first request on a new connection: the price
// of the handshake and of the wait for a refusal.
func BenchmarkFirstRequest(b *testing.B) {
	s := build(b, "")
	g := inprocess.Start(b, s.config)
	box := s.create(b, "a")
	for _, port := range []int{hidden, published} {
		serve(b, box, port, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	}
	client := g.Client()
	took := map[int][]float64{}
	for b.Loop() {
		for _, port := range []int{hidden, published} {
			began := time.Now()
			if status, body := text(b, client, request(b, http.MethodPost, g.URL, "a", port, strings.NewReader("x"))); status != 200 {
				b.Fatal(status, body)
			}
			took[port] = append(took[port], float64(time.Since(began)))
		}
	}
	b.ReportMetric(0, "ns/op")
	for port, name := range map[int]string{hidden: "tunnel", published: "mapped"} {
		b.ReportMetric(median(took[port])/1e6, fmt.Sprintf("%s-ms", name))
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
