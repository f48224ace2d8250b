package headline

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/sdk/client"
)

// order is a line for a program; see py/commands.py.
type order struct {
	ID      int     `json:"id"`
	Thread  int     `json:"thread"`
	Do      string  `json:"do"`
	Sandbox string  `json:"sandbox,omitempty"`
	Command string  `json:"command,omitempty"`
	User    string  `json:"user,omitempty"`
	Timeout float64 `json:"timeout,omitempty"` // seconds
}

// answer is a line of a program.
type answer struct {
	ID      int    `json:"id"`
	Sandbox string `json:"sandbox"`
	outcome
}

// driver gives orders to a program and takes its answers.
type driver struct {
	process *client.Process
	input   io.WriteCloser
	ended   chan struct{} // closed when the program prints no more

	writing sync.Mutex // one line at a time

	mu      sync.Mutex
	drawn   int
	waiting map[int]chan answer
	strange []string // lines that are no answers
}

func drive(t testing.TB, c client.Client, d client.Deployment, limit time.Duration) *driver {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &driver{input: write, ended: make(chan struct{}), waiting: map[int]chan answer{}}
	p.process = client.Start(t, c, d, client.Program{Folder: "integration/headline", Name: "commands", Limit: limit, Stdin: read})
	read.Close()
	go p.listen()
	return p
}

func (p *driver) listen() {
	defer close(p.ended)
	for p.process.Out.Scan() {
		var a answer
		err := json.Unmarshal(p.process.Out.Bytes(), &a)
		p.mu.Lock()
		to := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		if err != nil || to == nil {
			p.strange = append(p.strange, p.process.Out.Text())
		}
		p.mu.Unlock()
		if to != nil {
			to <- a
		}
	}
}

// do gives one order and waits for its answer for as long as patience lasts. An order without an answer is a hang. The answer
// may still come; the order's thread is not to be used again.
func (p *driver) do(o order, patience time.Duration) answer {
	to := make(chan answer, 1)
	p.mu.Lock()
	p.drawn++
	o.ID = p.drawn
	p.waiting[o.ID] = to
	p.mu.Unlock()
	line, err := json.Marshal(o)
	begun := time.Now()
	if err == nil {
		p.writing.Lock()
		_, err = p.input.Write(append(line, '\n'))
		p.writing.Unlock()
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	a := answer{}
	select {
	case a = <-to:
	case <-p.ended:
		a.hang = true
	case <-limit.C:
		a.hang = true
		p.mu.Lock()
		p.waiting[o.ID] = make(chan answer, 1) // too late is not strange
		p.mu.Unlock()
	}
	if err != nil {
		a.hang = true
	}
	a.took = time.Since(begun)
	return a
}

// end closes the program's input and reports how it ended, if not well.
func (p *driver) end() error {
	p.input.Close()
	<-p.ended
	err := p.process.Wait()
	p.process.Kill()
	if err != nil || len(p.strange) > 0 {
		return fmt.Errorf("the program ended with %w; %d strange lines: %.500q; stderr: %s", err, len(p.strange), p.strange, p.process.Stderr())
	}
	return nil
}
