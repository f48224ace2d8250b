// Package listing is what a list of sandboxes is made of: the query of the client, the items, their order and the token of
// the next page. It knows E2B's shape of a sandbox and ROCK's two, and nothing of who may see which, of clusters or of
// connections.
package listing

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// Item is a sandbox in a list (E2B API, ListedSandbox).
type Item struct {
	SandboxID  string `json:"sandboxID"`
	TemplateID string `json:"templateID"`
	ClientID   string `json:"clientID"`
	// StartedAt and EndAt are written in RFC 3339.
	StartedAt   time.Time         `json:"startedAt"`
	EndAt       time.Time         `json:"endAt"`
	CPUCount    int               `json:"cpuCount"`
	MemoryMB    int               `json:"memoryMB"`   // MiB, as E2B's are
	DiskSizeMB  int               `json:"diskSizeMB"` // MiB
	State       string            `json:"state"`
	EnvdVersion string            `json:"envdVersion"`
	Metadata    map[string]string `json:"metadata"`

	// Note is the value of routing.MetadataOwner, which Metadata does not show.
	Note string `json:"-"`
	// Subject is the value of routing.MetadataSubject.
	Subject string `json:"-"`
	// Template is the value of routing.MetadataTemplate.
	Template string `json:"-"`
	// Address is where the sandbox is, or "".
	Address string `json:"-"`
}

// Running is the one state of items: ROCK lists nothing that is paused.
const Running = "running"

// ErrNotRunning is a sandbox that a list does not show: it does not run yet, or no more.
var ErrNotRunning = errors.New("the sandbox is not running")

// What ROCK says of every sandbox of its own accord, and its own list does not (rock/common/constants.py).
const (
	clientID    = "rock"
	envdVersion = "0.3.0"
)

// noEnd is how long after its start a sandbox is said to end of which ROCK does not say when: nothing ends it.
const noEnd = 365 * 24 * time.Hour

// FromRecord reads an item of ROCK's own list. What ROCK leaves out or says null of is 0 or empty, but for the id, the
// state and a time of start. Errors: ErrNotRunning, and others when the record cannot be shown.
func FromRecord(raw []byte) (Item, error) {
	var record struct {
		SandboxID    string            `json:"sandbox_id"`
		State        string            `json:"state"`
		Image        string            `json:"image"`
		Metadata     map[string]string `json:"metadata"`
		CPUs         float64           `json:"cpus"`
		Memory       string            `json:"memory"`
		Disk         string            `json:"disk"`
		StartTime    string            `json:"start_time"`
		CreateTime   string            `json:"create_time"`
		AutoStopTime string            `json:"auto_stop_time"`
		HostIP       string            `json:"host_ip"`
	}
	if err := json.Unmarshal(raw, &record); err != nil {
		return Item{}, fmt.Errorf("the record is of another shape: %w", err)
	}
	item := Item{
		SandboxID: record.SandboxID, TemplateID: record.Image, ClientID: clientID, State: record.State, EnvdVersion: envdVersion,
		Metadata: record.Metadata,
	}
	var err error
	if item.MemoryMB, err = mebibytes(record.Memory); err != nil {
		return Item{}, fmt.Errorf("memory: %w", err)
	}
	if item.DiskSizeMB, err = mebibytes(record.Disk); err != nil {
		return Item{}, fmt.Errorf("disk: %w", err)
	}
	if record.CPUs < 0 || record.CPUs > math.MaxInt32 {
		return Item{}, errors.New("cpus: out of range")
	}
	item.CPUCount = int(math.Ceil(record.CPUs))
	if err := item.complete(cmp.Or(record.StartTime, record.CreateTime), record.AutoStopTime); err != nil {
		return Item{}, err
	}
	item.Address = record.HostIP
	return item, nil
}

// FromE2B reads an item of ROCK's E2B list. Errors as with FromRecord.
func FromE2B(raw []byte) (Item, error) {
	var shown struct {
		Item
		StartedAt string `json:"startedAt"`
		EndAt     string `json:"endAt"`
	}
	if err := json.Unmarshal(raw, &shown); err != nil {
		return Item{}, fmt.Errorf("the item is of another shape: %w", err)
	}
	if err := shown.complete(shown.StartedAt, shown.EndAt); err != nil {
		return Item{}, err
	}
	return shown.Item, nil
}

// ShowAddress puts the address where ROCK has it in its own answers, into the metadata.
func (i *Item) ShowAddress() {
	if i.Address != "" {
		i.Metadata[routing.MetadataAddress] = i.Address
	}
}

// complete checks what both of ROCK's shapes have, and takes out of the metadata what is not the client's.
func (i *Item) complete(start, end string) error {
	switch {
	case i.State != Running:
		return ErrNotRunning
	case !routing.ValidSandboxID(i.SandboxID):
		return routing.ErrInvalidSandboxID
	}
	var err error
	if i.StartedAt, err = moment(start); err != nil {
		return fmt.Errorf("the time of its start: %w", err)
	}
	if i.EndAt = i.StartedAt.Add(noEnd); end != "" {
		if i.EndAt, err = moment(end); err != nil {
			return fmt.Errorf("the time of its end: %w", err)
		}
	}
	visible := make(map[string]string, len(i.Metadata))
	for name, value := range i.Metadata {
		switch {
		case name == routing.MetadataOwner:
			i.Note = value
		case name == routing.MetadataSubject:
			i.Subject = value
		case name == routing.MetadataTemplate:
			i.Template = value
		case name == routing.MetadataAddress:
			i.Address = value
		case !routing.Reserves(name):
			visible[name] = value
		}
	}
	i.Metadata = visible
	return nil
}

// Python's datetime.isoformat, with and without a zone.
var momentLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"}

// moment reads a time in ISO 8601, in UTC if it names no zone.
func moment(text string) (time.Time, error) {
	for _, layout := range momentLayouts {
		t, err := time.Parse(layout, text)
		// RFC 3339 has four digits for a year, and a page's token 64 bits for a moment.
		if err == nil && t.Year() >= 1970 && t.Year() < 2200 {
			return t, nil
		}
	}
	return time.Time{}, errors.New("no time in ISO 8601")
}

// mebibytes reads a size as ROCK and Docker write it, "8.00g" or "50G": a number and a unit of 1024s. It is rounded up.
// Nothing is 0.
func mebibytes(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	number := strings.TrimRight(text, "bBkKmMgGtTiI ")
	unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(text[len(number):])), "b"), "i")
	scale, known := map[string]float64{"": 1.0 / (1 << 20), "k": 1.0 / (1 << 10), "m": 1, "g": 1 << 10, "t": 1 << 20}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if n = math.Ceil(n * scale); err != nil || !known || !(n >= 0 && n <= math.MaxInt32) {
		return 0, errors.New("no size")
	}
	return int(n), nil
}
