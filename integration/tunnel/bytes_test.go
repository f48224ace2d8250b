package tunnel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
)

// random is a stream of bytes that repeats nothing, and its hash.
func random(n int64) (io.Reader, func() string) {
	sum := sha256.New()
	r := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), n), sum)
	return r, func() string { return hex.EncodeToString(sum.Sum(nil)) }
}

func hash(t testing.TB, r io.Reader) string {
	t.Helper()
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		t.Error(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func TestEveryByteOfALargeBodyPassesInBothDirections(t *testing.T) {
	for _, transport := range transports {
		t.Run(string(transport), func(t *testing.T) {
			s := build(t, "")
			g := inprocess.Start(t, s.config, transport)
			box := s.create(t, "a")
			serve(t, box, hidden, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					io.WriteString(w, hash(t, r.Body))
					return
				}
				body, sum := random(large)
				w.Header().Set("Trailer", "Hash")
				io.Copy(w, body)
				w.Header().Set("Hash", sum())
			})
			client := g.Client()

			body, sum := random(large)
			if status, got := text(t, client, request(t, http.MethodPost, g.URL, "a", hidden, body)); status != 200 || got != sum() {
				t.Errorf("upload: %d, %s of %s", status, got, sum())
			}
			resp, err := client.Do(request(t, http.MethodGet, g.URL, "a", hidden, nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got := hash(t, resp.Body); got != resp.Trailer.Get("Hash") || got != sum() {
				t.Errorf("download: %s of %s", got, resp.Trailer.Get("Hash"))
			}
		})
	}
}

// Whoever reads slowly holds the sandbox back, and takes no memory of the gateway.
func TestAClientThatDoesNotReadHoldsTheSandboxBack(t *testing.T) {
	for _, transport := range transports {
		t.Run(string(transport), func(t *testing.T) {
			s := build(t, "")
			g := inprocess.Start(t, s.config, transport)
			box := s.create(t, "a")
			var written atomic.Int64
			serve(t, box, hidden, func(w http.ResponseWriter, r *http.Request) {
				piece := make([]byte, 64<<10)
				for r.Context().Err() == nil {
					n, err := w.Write(piece)
					if written.Add(int64(n)); err != nil {
						return
					}
				}
			})
			resp, err := g.Client().Do(request(t, http.MethodGet, g.URL, "a", hidden, nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			const most = 64 << 20 // of it, the kernel's buffers of three connections may be all
			look := time.NewTicker(500 * time.Millisecond)
			defer look.Stop()
			for last := int64(-1); last != written.Load(); <-look.C {
				if last = written.Load(); last > most {
					t.Fatalf("%d bytes were written and nothing was read", last)
				}
			}
			held := written.Load()
			if _, err := io.CopyN(io.Discard, resp.Body, held+1<<20); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the sandbox goes on", func() bool { return written.Load() > held })
		})
	}
}

// A body of which the rest is lost must not look whole.
func TestAnAnswerThatLosesItsSandboxOrItsProgramLooksCut(t *testing.T) {
	for _, transport := range transports {
		for _, length := range []int64{large, -1} {
			for death, die := range map[string]func(s *scene, program *http.Server){
				"killed":            func(s *scene, _ *http.Server) { s.kill(t, "a") },
				"crashed":           func(s *scene, _ *http.Server) { s.rock.Sandbox("a").Crash() },
				"its program ended": func(_ *scene, program *http.Server) { program.Close() },
			} {
				t.Run(fmt.Sprintf("%s, length %d, %s", transport, length, death), func(t *testing.T) {
					s := build(t, "")
					g := inprocess.Start(t, s.config, transport)
					box := s.create(t, "a")
					program := serve(t, box, hidden, func(w http.ResponseWriter, r *http.Request) {
						if length >= 0 {
							w.Header().Set("Content-Length", fmt.Sprint(length))
						}
						body, _ := random(large)
						io.Copy(w, body)
					})
					resp, err := g.Client().Do(request(t, http.MethodGet, g.URL, "a", hidden, nil))
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
						t.Fatal(err)
					}
					die(s, program)
					n, err := io.Copy(io.Discard, resp.Body)
					if err == nil || errors.Is(err, context.DeadlineExceeded) || n == large-1<<20 {
						t.Errorf("%d bytes more, %v", n, err)
					}
				})
			}
		}
	}
}
