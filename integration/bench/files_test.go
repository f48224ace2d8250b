package bench

import (
	"fmt"
	"strconv"

	"github.com/caddy-e2b/gateway/integration/harness"
)

// fileSize is the size of a large file, in bytes.
const fileSize = 64 << 20

const filesPath = "/files?path=%2Fhome%2Fuser%2Fbig.bin&username=user"

// filesInTurn is how many transfers make a turn.
const filesInTurn = 3

// flat is how much a process may grow while a large file passes, in bytes: an
// eighth of the file.
const flat = fileSize / 8

// files measures the two directions of large files.
func files(s *scene, r *report) {
	s.files(r, "download", (*client).download)
	s.files(r, "upload", (*client).upload)
}

func (s *scene) files(r *report, direction string, transfer func(*client, *contestant, int) error) {
	s.Helper()
	all := s.start(harness.Cleartext, gateway, stock, library, nginx, haproxy)
	clients := map[*contestant]*client{}
	move := func(c *contestant) {
		if err := transfer(clients[c], c, fileSize); err != nil {
			s.Fatalf("%s: %v", c.kind, err)
		}
	}
	for _, c := range all {
		k, err := connectH1(c)
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { k.Close() })
		clients[c] = k
		move(c) // warms it up
	}
	perSecond, busy, growth := samples{}, samples{}, samples{}
	takeTurns(all, *rounds, func(t turn) {
		c := t.contestant
		before := resident(s, c.pid)
		resetPeak(s, c.pid)
		d := s.during(c, func() {
			for range filesInTurn {
				move(c)
			}
		})
		perSecond.add(t, filesInTurn*fileSize/d.cpu.Seconds())
		busy.add(t, d.busy())
		growth.add(t, float64(peak(s, c.pid)-before))
	})
	t := table{
		title: "A file of 64 MiB, " + direction,
		text: "HTTP/1.1 in cleartext, one at a time, with `Content-Length`. Growth is the most by which the process was larger during a transfer than before it, " +
			"in resident memory, in any round.",
		head: []string{"", "MB per CPU-second", "the gateway's MB over them", "growth", "busy"},
	}
	for _, c := range all {
		k := c.kind
		t.rows = append(t.rows, []string{string(k), mega(perSecond.of(k)), times(perSecond.ratio(gateway, k)), mebi(quantile(growth.all(k), 1)), share(busy.of(k))})
	}
	r.add(t)
	r.promise(promise{text: "64 MiB " + direction + ": MB per CPU-second over nginx's", value: perSecond.ratio(gateway, nginx), least: 0.6, write: times})
	r.promise(promise{text: "64 MiB " + direction + ": MB per CPU-second over stock Caddy's", value: perSecond.ratio(gateway, stock), least: 1, write: times})
	r.promise(promise{text: "64 MiB " + direction + ": growth of the gateway's memory meanwhile", value: quantile(growth.all(gateway), 1), most: flat, write: mebi})
}

// download takes a file of so many bytes.
func (c *client) download(from *contestant, size int) error {
	c.request = requestH1(from, "GET", filesPath, headersOf(sandbox, "application/octet-stream", fmt.Sprint("file ", size)), 0, "")
	head, err := c.send()
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(string(field(head, "Content-Length"))); err != nil || n != size {
		return fmt.Errorf("a file of %d bytes, %w", n, err)
	}
	return c.in.each(int64(size), fileOf(int64(size)).take)
}

// upload sends one.
func (c *client) upload(to *contestant, size int) error {
	if _, err := c.Write(requestH1(to, "POST", filesPath, headersOf(sandbox, "application/octet-stream", ""), size, "")); err != nil {
		return err
	}
	for sent := 0; sent < size; sent += longest {
		if _, err := c.Write(blocks[:min(longest, size-sent)]); err != nil {
			return err
		}
	}
	c.request = nil // all of it is on its way
	return c.call()
}
