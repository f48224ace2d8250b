package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddy-e2b/gateway/handlers/listing"
	"github.com/caddy-e2b/gateway/routing"
)

// This file asks ROCK for sandboxes: its E2B list, and its own list page by page.

const (
	// listCallTimeout bounds one call for a list. A cluster that takes longer counts as one that cannot be asked.
	listCallTimeout = 30 * time.Second
	// pageSize is the longest page asked of ROCK, in records. A power of two, so that it can be halved; ROCK refuses more
	// than its proxy_service.batch_get_status_max_count.
	pageSize = 256
	// maxFailures is how many pages may fail in one look through the list. Each record that ROCK cannot show fails nine,
	// from 256 records down to itself.
	maxFailures = 200
	// hopeless is how many pages may fail before any succeeds: enough to get past a bad record at the very beginning.
	hopeless = 12
	// walksAtOnce is how many look through a list at a time, in this gateway.
	walksAtOnce = 4
)

// errNotServed: this ROCK has no list of its own.
var errNotServed = errors.New("ROCK has no such call")

// rockFailed reports that ROCK answered and that the answer is of no use, and not that it could not be asked.
func rockFailed(err error) bool {
	var failed *rockError
	return errors.As(err, &failed) || errors.Is(err, errRockAnswer) || errors.Is(err, errNotServed)
}

// listE2B is ROCK's GET /v2/sandboxes with the query. Errors as with call.
func (c RoleClient) listE2B(ctx context.Context, query string) (items []json.RawMessage, _ error) {
	ctx, cancel := context.WithTimeout(ctx, listCallTimeout)
	defer cancel()
	resp, err := c.Get(ctx, "/v2/sandboxes?"+query)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRockAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, &rockError{Status: resp.StatusCode, Text: "its E2B list failed"}
	case len(body) > maxRockAnswer:
		return nil, fmt.Errorf("%w: it is too long", errRockAnswer)
	case json.Unmarshal(body, &items) != nil || items == nil:
		return nil, fmt.Errorf("%w: it is no list", errRockAnswer)
	}
	return items, nil
}

// walk is one look through ROCK's own list of a cluster.
type walk struct {
	list    *list
	cluster *routing.Cluster
	take    func([]listing.Item) error

	seen       map[string]bool
	total      int // as the last page said
	moved      bool
	pages      int // that succeeded
	failures   int
	unshowable int
}

// walk gives take every running sandbox of the cluster, once, in pieces and in no order. ROCK does not promise that its
// pages stay put while sandboxes come and go. When they have moved, it looks through them once more.
func (l *list) walk(ctx context.Context, cluster *routing.Cluster, take func([]listing.Item) error) error {
	select {
	case l.g.lists.walks <- struct{}{}:
		defer func() { <-l.g.lists.walks }()
	case <-ctx.Done():
		return ctx.Err()
	}
	w := &walk{list: l, cluster: cluster, take: take, seen: map[string]bool{}}
	const passes = 2
	for range passes {
		w.total, w.moved, w.unshowable = -1, false, 0
		for page, more := 1, true; more; page++ {
			var err error
			if more, err = w.span(ctx, page, pageSize); err != nil {
				return err
			}
		}
		if !w.moved && len(w.seen)+w.unshowable >= w.total {
			break
		}
	}
	return nil
}

// span reads a page, in halves if ROCK cannot show it whole. It reports whether there are more behind it.
func (w *walk) span(ctx context.Context, page, size int) (more bool, _ error) {
	result, err := w.read(ctx, page, size)
	var failed *rockError
	switch {
	case err == nil:
		w.pages++
		return result.HasMore && len(result.Items) > 0, w.use(result)
	case !errors.As(err, &failed):
		return false, err
	case w.pages == 0 && failed.unserved():
		return false, fmt.Errorf("%w: %w", errNotServed, err)
	}
	if w.failures++; w.failures > maxFailures || w.pages == 0 && w.failures > hopeless {
		return false, err
	}
	if size == 1 {
		w.unshowable++
		w.list.skip(w.cluster, "", err)
		return true, nil // perhaps
	}
	if more, err = w.span(ctx, 2*page-1, size/2); err != nil || !more {
		return false, err
	}
	return w.span(ctx, 2*page, size/2)
}

// nativePage is a page of ROCK's own list.
type nativePage struct {
	Items   []json.RawMessage `json:"items"`
	Total   int               `json:"total"`
	HasMore bool              `json:"has_more"`
}

func (w *walk) read(ctx context.Context, page, size int) (result nativePage, _ error) {
	ctx, cancel := context.WithTimeout(ctx, listCallTimeout)
	defer cancel()
	err := RoleClient{w.cluster.Proxy, w.list.g.opt.Upstream}.call(ctx, http.MethodGet,
		fmt.Sprintf("/sandboxes?page=%d&page_size=%d&state=%s", page, size, listing.Running), nil, &result)
	return result, err
}

// use hands on what is new on a page.
func (w *walk) use(page nativePage) error {
	w.moved = w.moved || w.total >= 0 && w.total != page.Total
	w.total = page.Total
	items := make([]listing.Item, 0, len(page.Items))
	for _, raw := range page.Items {
		var named struct {
			SandboxID string `json:"sandbox_id"`
		}
		if err := json.Unmarshal(raw, &named); err == nil && w.seen[named.SandboxID] {
			continue
		}
		w.seen[named.SandboxID] = true
		item, err := w.list.shown(listing.FromRecord(raw))
		switch {
		case errors.Is(err, listing.ErrNotRunning):
		case err != nil:
			w.list.skip(w.cluster, named.SandboxID, err)
		default:
			items = append(items, item)
		}
	}
	return w.take(items)
}
