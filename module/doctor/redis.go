package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/redis"
)

// redis inspects every Redis, side by side.
func (x *examination) redis(ctx context.Context) {
	var running sync.WaitGroup
	for _, r := range x.Redis {
		running.Go(func() { x.inspect(ctx, r) })
	}
	running.Wait()
}

func (x *examination) inspect(ctx context.Context, r Redis) {
	where := r.For + ", " + r.Config.String()
	found, err := redis.Inspect(ctx, r.Config, r.Needs)
	if err != nil {
		if text := err.Error(); strings.HasPrefix(text, "WRONGPASS") || strings.HasPrefix(text, "NOAUTH") || strings.Contains(text, "invalid password") {
			x.found(redisLogin, where, "It answers: %s", text)
			return
		}
		x.found(redisUnreachable, where, "%v", err)
		return
	}
	for _, refusal := range found.Refused {
		if refusal.Forbidden() {
			x.found(redisRights, where, "%s", refusal)
		} else {
			x.found(redisCommands, where, "%s", refusal)
		}
	}
	if len(found.Untold) > 0 {
		x.unchecked("version, memory limit, replication and clock of "+where,
			"its user may not ask ("+strings.Join(found.Untold, ", ")+"), and needs not")
	}
	x.facts(found, r, where)
	if r.Cluster >= 0 {
		x.samples(ctx, r, found.Documents, where)
	}
}

func (x *examination) facts(found *redis.Inspection, r Redis, where string) {
	f := found.Facts
	if f.MemoryLimit > 0 && strings.HasPrefix(f.Eviction, "allkeys") {
		x.found(redisEvicts, where, "maxmemory is %d bytes, and maxmemory-policy is %s.", f.MemoryLimit, f.Eviction)
	}
	if f.Replica {
		x.found(redisReplica, where, "Its role is slave.")
	}
	if f.EventsTold && !f.HearsOfRecords(found.Documents) {
		x.found(redisEvents, where, "notify-keyspace-events is %q.", f.Events)
	}
	if f.SkewTold && f.Skew.Abs() > tolerance {
		x.skew(f.Skew > 0, f.Skew.Abs(), where)
	}
}

// samples looks for sandboxes that ROCK says it runs.
func (x *examination) samples(ctx context.Context, r Redis, documents bool, where string) {
	ids, err := x.running(ctx, r.Cluster)
	switch {
	case err != nil:
		x.unchecked("records in "+where, "ROCK's list of sandboxes cannot be had")
		return
	case len(ids) == 0:
		if !documents {
			x.found(redisDocuments, where, "It does not know JSON.GET, and ROCK runs no sandbox whose record could be looked at.")
		}
		return
	}
	registry, err := redis.New(r.Config)
	if err != nil {
		return
	}
	defer registry.Close()
	missing := 0
	for _, id := range ids {
		switch _, err := registry.Lookup(ctx, id); {
		case errors.Is(err, routing.ErrGone):
			missing++
		case errors.Is(err, routing.ErrMalformed):
			x.found(redisRecords, where, "The record of sandbox %s: %v.", id, err)
			return
		}
	}
	// One may have ended since it was listed.
	if missing == len(ids) {
		x.found(redisOther, where, "ROCK runs %d sandboxes that were looked for, and none has a record here.", missing)
	}
}

// sampleSize is how many sandboxes are looked for.
const sampleSize = "5"

// running are a few sandboxes of a cluster, by the first proxy that lists them.
func (x *examination) running(ctx context.Context, cluster int) (ids []string, err error) {
	client := rockClient(x.TLS[cluster])
	err = errors.New("there is no proxy")
	for _, address := range x.App.Clusters[cluster].Proxy {
		if ids, err = listed(ctx, client, address); err == nil {
			return ids, nil
		}
	}
	return nil, err
}

func listed(ctx context.Context, client *http.Client, address string) (ids []string, _ error) {
	_, body, err := get(ctx, client, address, "/apis/envs/sandbox/v1/sandboxes?page=1&state=running&page_size="+sampleSize)
	if err != nil {
		return nil, err
	}
	var page struct {
		Status string `json:"status"`
		Result *struct {
			Items []struct {
				SandboxID string `json:"sandbox_id"`
			} `json:"items"`
		} `json:"result"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, err
	}
	if page.Result == nil || page.Status != "Success" {
		return nil, errors.New("the list failed")
	}
	for _, item := range page.Result.Items {
		ids = append(ids, item.SandboxID)
	}
	return ids, nil
}
