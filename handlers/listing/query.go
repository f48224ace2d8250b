package listing

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Query is what a client wants listed.
type Query struct {
	// Metadata are the pairs that a sandbox must have, all of them.
	Metadata map[string]string
	// States that were asked for. Both when none was named.
	Running, Paused bool
	// OldestFirst turns the order around: it is the newest first otherwise, as with E2B.
	OldestFirst bool
	// Since leaves out what was started before it. Zero: nothing.
	Since time.Time
	// Template is the template id of the sandboxes, "" for any.
	Template string
	// Limit is the longest page, in items: 1 to MaxLimit.
	Limit int
	// Token of the page, or "" for the first. It is not checked: Position does that.
	Token string
}

// MaxLimit is the longest page, in items, and the default.
const MaxLimit = 100

// What can be wrong with the query of a list. The texts are for clients.
var (
	ErrQuery    = errors.New("the query of a list cannot be read")
	ErrTwice    = errors.New("the query of a list must not name anything but state twice")
	ErrMetadata = errors.New("metadata must be pairs of keys and values, each key once")
	ErrState    = errors.New("state must be running, paused or both")
	ErrOrder    = errors.New("order must be asc or desc")
	ErrSince    = errors.New("startedAfter must be a time in ISO 8601")
	ErrLimit    = errors.New("limit must be a whole number from 1 to 100")
	ErrToken    = errors.New("nextToken is not of this list; begin again without it")
)

// ParseQuery reads the query of GET /v2/sandboxes as it was sent. Parameters that are no list's are passed over. Errors
// are those above.
func ParseQuery(raw string) (Query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return Query{}, ErrQuery
	}
	for _, name := range []string{"metadata", "order", "startedAfter", "template", "limit", "nextToken"} {
		if len(values[name]) > 1 {
			return Query{}, ErrTwice
		}
	}
	q := Query{Limit: MaxLimit, Token: values.Get("nextToken"), Template: values.Get("template")}
	switch values.Get("order") {
	case "", "desc":
	case "asc":
		q.OldestFirst = true
	default:
		return Query{}, ErrOrder
	}
	if since := values.Get("startedAfter"); since != "" {
		if q.Since, err = moment(since); err != nil {
			return Query{}, ErrSince
		}
	}
	if q.Metadata, err = parseMetadata(values.Get("metadata")); err != nil {
		return Query{}, err
	}
	if err := q.parseStates(values["state"]); err != nil {
		return Query{}, err
	}
	if limit := values.Get("limit"); limit != "" {
		if q.Limit, err = strconv.Atoi(limit); err != nil || q.Limit < 1 || q.Limit > MaxLimit {
			return Query{}, ErrLimit
		}
	}
	return q, nil
}

// parseStates reads states that are joined with commas, as the SDKs send them, or repeated.
func (q *Query) parseStates(values []string) error {
	for _, value := range values {
		for state := range strings.SplitSeq(value, ",") {
			switch state {
			case "":
			case Running:
				q.Running = true
			case "paused":
				q.Paused = true
			default:
				return ErrState
			}
		}
	}
	if !q.Running && !q.Paused {
		q.Running, q.Paused = true, true
	}
	return nil
}

// parseMetadata reads what is left of the parameter when the query was decoded: a form of keys and values that are
// percent-encoded once more, as the SDKs send it, or key:value,key:value. A percent sign that begins no escape stands for
// itself, as it does to ROCK.
func parseMetadata(value string) (map[string]string, error) {
	if value == "" {
		return nil, nil
	}
	pairs, between, decode := ",", ":", strings.TrimSpace
	if strings.Contains(value, "=") {
		pairs, between, decode = "&", "=", func(s string) string { return unquote(unquote(strings.ReplaceAll(s, "+", " "))) }
	}
	metadata := map[string]string{}
	for pair := range strings.SplitSeq(value, pairs) {
		key, value, ok := strings.Cut(pair, between)
		key, value = decode(key), decode(value)
		if _, twice := metadata[key]; !ok || twice || key == "" || !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, ErrMetadata
		}
		metadata[key] = value
	}
	return metadata, nil
}

// unquote decodes percent escapes and leaves what is none as it is.
func unquote(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// RockFilter is pairs in the query of ROCK's E2B list. The SDKs encode keys and values three times over, and ROCKs differ
// in whether they undo the third: here it is left out, and so are pairs that would be read in two ways for that, with a
// percent sign in them. Empty keys and values, which ROCK refuses, are left out, too. So what ROCK finds may be more than
// what was asked for.
func RockFilter(metadata map[string]string) string {
	form := url.Values{}
	for key, value := range metadata {
		if key != "" && value != "" && !strings.Contains(key+value, "%") {
			form.Set(key, value)
		}
	}
	return "metadata=" + url.QueryEscape(form.Encode())
}

// Order is that in which the list has the items: by their start, and those of one moment by id.
func (q *Query) Order(a, b Item) int {
	byStart := b.StartedAt.Compare(a.StartedAt)
	if q.OldestFirst {
		byStart = -byStart
	}
	return cmp.Or(byStart, strings.Compare(a.SandboxID, b.SandboxID))
}

// Matches reports an item that is all that was asked for. What an item does not show matches nothing.
func (q *Query) Matches(i *Item) bool {
	if i.StartedAt.Before(q.Since) || q.Template != "" && q.Template != cmp.Or(i.Template, i.TemplateID) {
		return false
	}
	for key, value := range q.Metadata {
		if got, ok := i.Metadata[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// pairs are the metadata in one order, for the digest of a token.
func (q *Query) pairs() []string {
	pairs := make([]string, 0, len(q.Metadata))
	for key, value := range q.Metadata {
		pairs = append(pairs, strconv.Quote(key)+strconv.Quote(value))
	}
	slices.Sort(pairs)
	return pairs
}
