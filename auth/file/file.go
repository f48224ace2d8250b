// Package file is a store of API keys in a JSON file that is read again whenever
// it changes:
//
//	{"keys": [
//	  {"digest": "<64 hexadecimal digits>", "subject": "alice"},
//	  {"digest": "…", "subject": "bob", "scopes": ["data"], "expires": "2027-01-31T00:00:00Z"}
//	]}
//
// The fields are those of [auth.Record].
package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-e2b/gateway/auth"
)

const (
	// pollInterval is how often the file is read. A change counts after two of
	// them at the latest, which is within the second that operators are promised.
	pollInterval = 450 * time.Millisecond
	// maxSize is the longest file, in bytes: some 20,000 keys.
	maxSize = 8 << 20
)

// Store is an [auth.Store]. It reads the file twice a second and compares
// what it holds, and asks no kernel for notice: notices are not sent by network
// file systems, go to the old file when a new one is moved over it or a link to
// it is changed, and times and lengths of files can stay the same.
//
// A file that cannot be read any more, or that is not well-formed, changes
// nothing: the keys that were read last hold, and the log says so once.
// Whoever wants nobody to get in writes an empty list. At the start such a file
// is an error.
type Store struct {
	path  string
	log   *slog.Logger
	table atomic.Pointer[auth.Table]

	cancel context.CancelFunc
	poll   sync.WaitGroup
}

// New reads the file and follows it until Close.
func New(path string, log *slog.Logger) (*Store, error) {
	content, err := read(path)
	if err != nil {
		return nil, err
	}
	table, err := parse(path, content)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Store{path: path, log: log, cancel: cancel}
	s.table.Store(&table)
	seen := state{sum: sha256.Sum256(content)}
	s.poll.Go(func() { s.follow(ctx, seen) })
	return s, nil
}

// Read returns the keys in the file, once.
func Read(path string) (auth.Table, error) {
	content, err := read(path)
	if err != nil {
		return nil, err
	}
	return parse(path, content)
}

func parse(path string, content []byte) (auth.Table, error) {
	table, err := Parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return table, nil
}

// Close ends the reading of the file.
func (s *Store) Close() error {
	s.cancel()
	s.poll.Wait()
	return nil
}

// Lookup implements [auth.Store].
func (s *Store) Lookup(ctx context.Context, digest auth.Digest) (*auth.Key, error) {
	return s.table.Load().Lookup(ctx, digest)
}

// Peek implements [auth.Peeker].
func (s *Store) Peek(digest auth.Digest) *auth.Key { return s.table.Load().Peek(digest) }

// state is what the last readings of the file were like.
type state struct {
	sum   [sha256.Size]byte // of the content, when problem is ""
	first string            // what was wrong the last time
	told  string            // what the log was told of
}

func (s *Store) follow(ctx context.Context, seen state) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.look(&seen)
		case <-ctx.Done():
			return
		}
	}
}

// look reads the file once.
func (s *Store) look(seen *state) {
	content, err := read(s.path)
	sum := sha256.Sum256(content)
	if err == nil && sum == seen.sum {
		s.well(seen)
		return
	}
	var table auth.Table
	if err == nil {
		table, err = Parse(content)
	}
	if err == nil {
		s.table.Store(&table)
		seen.sum = sum
		s.log.Info("the API keys have been read again", "file", s.path, "keys", len(table))
		seen.first, seen.told = "", ""
		return
	}
	// Somebody may be writing it at the moment. What is wrong twice stays.
	problem := fmt.Sprintf("%x %v", sum, err)
	if seen.first == problem && seen.told != problem {
		seen.told = problem
		s.log.Error("the file of the API keys cannot be read, those that were read last stay valid",
			"file", s.path, "error", err.Error())
	}
	seen.first = problem
}

// well notes that the file is what it was before it was broken.
func (s *Store) well(seen *state) {
	if seen.told != "" {
		s.log.Info("the file of the API keys is as it was read last", "file", s.path)
	}
	seen.first, seen.told = "", ""
}

// read returns the content of the file. The errors hold no more than its path.
func read(path string) ([]byte, error) {
	// Opening a pipe would wait for somebody to write to it.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxSize {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxSize)
	}
	return content, nil
}

// Parse reads the content of a file. Errors quote nothing that may be a key.
func Parse(content []byte) (auth.Table, error) {
	var file struct {
		Keys *[]auth.Record `json:"keys"`
	}
	if err := auth.UnmarshalStrict(content, &file); err != nil {
		return nil, err
	}
	if file.Keys == nil {
		return nil, errors.New(`there is no list "keys"; where nobody is to get in, it is empty`)
	}
	return auth.NewTable(*file.Keys)
}
