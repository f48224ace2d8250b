package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/handlers/splice"
	"github.com/caddy-e2b/gateway/routing"
)

// completeCreate gives the body of a create the two fields that ROCK requires
// and newer SDKs leave out: metadata, and timeout in seconds. Every other byte
// stays as it is.
func completeCreate(body []byte, lifetime time.Duration) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, errCreateBody
	}
	var missing []byte
	if _, ok := fields["metadata"]; !ok {
		missing = append(missing, `"metadata":{}`...)
	}
	if _, ok := fields["timeout"]; !ok {
		if missing != nil {
			missing = append(missing, ',')
		}
		missing = append(missing, `"timeout":`...)
		missing = strconv.AppendInt(missing, int64((lifetime+time.Second-1)/time.Second), 10)
	}
	if missing == nil {
		return body, nil
	}
	if len(fields) > 0 {
		missing = append(missing, ',')
	}
	open := bytes.IndexByte(body, '{') + 1
	completed := make([]byte, 0, len(body)+len(missing))
	completed = append(completed, body[:open]...)
	completed = append(completed, missing...)
	return append(completed, body[open:]...), nil
}

var errCreateBody = errors.New("the body must be a JSON object")

// chosenID is the metadata key by which a creator chooses the sandbox's id
// (rock/common/constants.py).
const chosenID = "ap-sandbox-id"

// reservedMetadata begins the metadata keys that are the gateway's own.
const reservedMetadata = routing.MetadataPrefix

// ownCreate notes the owner in the metadata of a completed create. id is what
// the creator wants the sandbox to be called, or "". Every other byte stays as
// it is. What two readers could read in two ways is refused: the note must be
// what ROCK finds.
func ownCreate(body []byte, owner routing.Owner) (owned []byte, id string, err error) {
	create, ok := splice.Parse(body)
	if !ok || !create.IsObject() {
		return nil, "", errCreateBody
	}
	at := create.Find("metadata")
	if at < 0 {
		return nil, "", errMetadata
	}
	for i := range create.Len() {
		if i != at && create.Name(i) == "metadata" {
			return nil, "", errors.New("metadata is given twice")
		}
	}
	metadata, ok := create.Child(at)
	if !ok || !metadata.IsObject() {
		return nil, "", errMetadata
	}
	seen := make(map[string]bool, metadata.Len())
	for i := range metadata.Len() {
		name := metadata.Name(i)
		value, ok := metadata.Text(i)
		switch {
		case !ok:
			return nil, "", errMetadata
		case seen[name]:
			return nil, "", errors.New("metadata holds a key twice")
		case len(name) >= len(reservedMetadata) && strings.EqualFold(name[:len(reservedMetadata)], reservedMetadata):
			return nil, "", fmt.Errorf("metadata: keys that begin with %s are the gateway's own", reservedMetadata)
		case name == routing.MetadataAddress:
			return nil, "", errors.New("metadata: the address of a sandbox is ROCK's to say")
		case name == chosenID && !routing.ValidSandboxID(value):
			return nil, "", fmt.Errorf("metadata: %s: %w", chosenID, routing.ErrInvalidSandboxID)
		case name == chosenID:
			id = value
		}
		seen[name] = true
	}
	metadata.Add(routing.MetadataOwner, splice.Quote(owner.Metadata()))
	metadata.Add(routing.MetadataSubject, splice.Quote(owner.Subject))
	create.Set(at, metadata.Bytes())
	return create.Bytes(), id, nil
}

var errMetadata = errors.New("metadata must be an object of strings")
