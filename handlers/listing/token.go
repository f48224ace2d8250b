package listing

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// Position is a place in a list: behind the sandbox that it names, whether that is still there or not. So a page
// neither repeats nor skips what stays, however much comes and goes.
type Position struct {
	StartedAt time.Time
	SandboxID string
}

// After is the position behind an item.
func After(i *Item) Position { return Position{i.StartedAt, i.SandboxID} }

// Behind reports an item that the list has behind the position. Behind the zero Position are all.
func (q *Query) Behind(p Position, i *Item) bool {
	return p == Position{} || q.Order(Item{StartedAt: p.StartedAt, SandboxID: p.SandboxID}, *i) < 0
}

// The token of a page is base64url without padding of: one byte version, 8 bytes of what the list is, 8 bytes of the
// moment in nanoseconds since 1970, and the sandbox's id. It is no secret: it says what the page before it has shown.
const (
	tokenVersion = 1
	digestSize   = 8
	tokenHead    = 1 + digestSize + 8
)

// Next is the token by which the list goes on at p. scope is what else makes the list another one: whose it is, and of
// which clusters.
func (q *Query) Next(p Position, scope ...string) string {
	b := append([]byte{tokenVersion}, q.digest(scope)...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.StartedAt.UnixNano()))
	return base64.RawURLEncoding.EncodeToString(append(b, p.SandboxID...))
}

// Position reads the token of the query, if there is one. It fails with ErrToken for what is none of this list.
func (q *Query) Position(scope ...string) (Position, error) {
	if q.Token == "" {
		return Position{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Token)
	// Encoded again, because the decoder passes over line ends and loose bits.
	if err != nil || base64.RawURLEncoding.EncodeToString(b) != q.Token || len(b) < tokenHead || b[0] != tokenVersion || string(b[1:1+digestSize]) != string(q.digest(scope)) {
		return Position{}, ErrToken
	}
	p := Position{time.Unix(0, int64(binary.BigEndian.Uint64(b[1+digestSize:]))).UTC(), string(b[tokenHead:])}
	if !routing.ValidSandboxID(p.SandboxID) {
		return Position{}, ErrToken
	}
	return p, nil
}

// digest tells lists apart. Pages of one list may differ in their limit.
func (q *Query) digest(scope []string) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %t %t %t %d %q", scope, q.pairs(), q.Running, q.Paused, q.OldestFirst, q.Since.UnixNano(), q.Template)
	return h.Sum(nil)[:digestSize]
}
