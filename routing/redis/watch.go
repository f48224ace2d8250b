package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/routing"
)

const (
	// trackingChannel is where Redis tells a RESP2 connection of changed keys.
	trackingChannel = "__redis__:invalidate"
	// quietTime is how long nothing may come before the server is pinged, and
	// how long it may take to answer that.
	quietTime = 5 * time.Second
	// topologyPause is the time between two looks at a cluster's masters.
	topologyPause = 10 * time.Second
	// sentinelPause is the time between two questions for the master.
	sentinelPause = time.Second
)

// Watch implements routing.Watcher. It holds one connection to the server, or
// to every master of a cluster, and calls changed with "" whenever one of them
// was made, as changes may have been missed before. Calls may come from several
// goroutines at a time. All of them have ended when Watch returns.
func (r *Registry) Watch(ctx context.Context, changed func(sandboxID string)) {
	switch {
	case r.cfg.Watch == WatchOff:
		<-ctx.Done()
	case r.cfg.Cluster:
		r.follow(ctx, topologyPause, r.clusterMasters, changed)
	case r.cfg.Sentinel != nil:
		sentinels := &sentinels{cfg: r.cfg}
		defer sentinels.close()
		r.follow(ctx, sentinelPause, sentinels.master, changed)
	default:
		r.watchServer(ctx, r.cfg.Addresses[0], changed)
	}
}

// follow keeps one watch for each master, asking for them again and again: an
// old master that stays up says nothing of what happens at the new one.
func (r *Registry) follow(ctx context.Context, pause time.Duration, masters func(context.Context) ([]string, error), changed func(string)) {
	var watches sync.WaitGroup
	defer watches.Wait()
	stops := map[string]context.CancelFunc{}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	known := true
	for ctx.Err() == nil {
		addresses, err := masters(ctx)
		if err != nil && known && ctx.Err() == nil {
			r.log.Warn("redis watch: the masters are not known", "error", r.redact(err))
		}
		known = err == nil
		if known {
			for address, stop := range stops {
				if !slices.Contains(addresses, address) {
					stop()
					delete(stops, address)
				}
			}
			for _, address := range addresses {
				if stops[address] == nil {
					one, stop := context.WithCancel(ctx)
					stops[address] = stop
					watches.Go(func() { r.watchServer(one, address, changed) })
				}
			}
		}
		sleep(ctx, pause)
	}
}

// clusterMasters are the masters that the cluster's client knows, and the
// client is told to look again for the next time.
func (r *Registry) clusterMasters(ctx context.Context) ([]string, error) {
	cluster := r.client.(*goredis.ClusterClient)
	defer cluster.ReloadState(ctx)
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	var mu sync.Mutex
	var masters []string
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, node.Options().Addr)
		return nil
	})
	return masters, err
}

// sentinels asks one sentinel after the other until one answers, and stays
// with that.
type sentinels struct {
	cfg    Config
	next   int
	client *goredis.SentinelClient
}

func (s *sentinels) master(ctx context.Context) ([]string, error) {
	var last error
	for range s.cfg.Addresses {
		if s.client == nil {
			options, err := s.cfg.options()
			if err != nil {
				return nil, err
			}
			options.Addrs = s.cfg.Addresses[s.next : s.next+1]
			options.Username, options.Password, options.DB = s.cfg.Sentinel.Username, s.cfg.Sentinel.Password, 0
			options.PoolSize = 1
			s.client = goredis.NewSentinelClient(options.Simple())
		}
		one, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		address, err := s.client.GetMasterAddrByName(one, s.cfg.Sentinel.Master).Result()
		cancel()
		if err == nil && len(address) == 2 {
			return []string{net.JoinHostPort(address[0], address[1])}, nil
		}
		if last = err; last == nil {
			last = errors.New("its answer is not an address")
		}
		s.close()
		s.next = (s.next + 1) % len(s.cfg.Addresses)
	}
	return nil, fmt.Errorf("no sentinel names the master: %w", last)
}

func (s *sentinels) close() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

// watchServer watches the server at address until ctx ends.
func (r *Registry) watchServer(ctx context.Context, address string, changed func(string)) {
	for attempt := 0; ; attempt++ {
		start := time.Now()
		err := r.watchOnce(ctx, address, changed)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > quietTime {
			attempt = 0
		}
		r.log.Warn("redis watch: lost, changes are seen when routes expire",
			"server", address, "error", r.redact(err), "retry_in", backoff(attempt))
		if !sleep(ctx, backoff(attempt)) {
			return
		}
	}
}

// watchOnce watches on one connection until it is lost.
func (r *Registry) watchOnce(ctx context.Context, address string, changed func(string)) error {
	client, err := r.watchClient(address)
	if err != nil {
		return err
	}
	defer client.Close()
	var subscription *goredis.PubSub
	if r.cfg.Watch == WatchKeyspace {
		subscription = client.PSubscribe(ctx, r.keyspacePattern())
	} else {
		subscription = client.Subscribe(ctx, trackingChannel)
	}
	defer subscription.Close()
	// Receiving does not end with ctx, but with the connection.
	defer context.AfterFunc(ctx, func() { subscription.Close() })()

	pinged := false
	up := false
	for {
		message, err := subscription.ReceiveTimeout(ctx, quietTime)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout() && up && !pinged:
			pinged = true
			if err := subscription.Ping(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		pinged = false
		switch m := message.(type) {
		case *goredis.Subscription:
			if up { // go-redis made another connection; what was between is missed
				return errors.New("the connection was lost")
			}
			up = true
			r.watching.Add(1)
			defer r.watching.Add(-1)
			r.log.Info("redis watch: up", "server", address, "by", r.cfg.Watch)
			changed("")
		case *goredis.Message:
			r.tell(m, changed)
		}
	}
}

// tell passes on the ids of the sandboxes that a message is about.
func (r *Registry) tell(m *goredis.Message, changed func(string)) {
	keys := m.PayloadSlice
	if m.Pattern != "" {
		_, key, _ := strings.Cut(m.Channel, ":")
		keys = []string{key}
	}
	for _, key := range keys {
		if id, ok := strings.CutPrefix(key, r.cfg.KeyPrefix); ok && routing.ValidSandboxID(id) {
			changed(id)
		}
	}
}

func (r *Registry) keyspacePattern() string {
	var escaped strings.Builder
	for _, c := range r.cfg.KeyPrefix {
		if strings.ContainsRune(`*?[]\`, c) {
			escaped.WriteByte('\\')
		}
		escaped.WriteRune(c)
	}
	return fmt.Sprintf("__keyspace@%d__:%s*", r.cfg.DB, escaped.String())
}

// watchClient makes a client for one subscription, always in RESP2: there
// changes come as ordinary messages of a channel, which go-redis hands out,
// while it keeps the pushes of RESP3 to itself.
func (r *Registry) watchClient(address string) (*goredis.Client, error) {
	cfg := r.cfg
	cfg.Protocol = 2
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	options.Addrs = []string{address}
	options.PoolSize = 1
	if cfg.Watch == WatchTracking {
		options.OnConnect = func(ctx context.Context, conn *goredis.Conn) error {
			return track(ctx, conn, cfg.KeyPrefix)
		}
	}
	return goredis.NewClient(options.Simple()), nil
}

// track asks for the changes of all records, to be sent to this connection
// itself. A client may redirect its own tracking to itself.
func track(ctx context.Context, conn *goredis.Conn, prefix string) error {
	id, err := conn.ClientID(ctx).Result()
	if err != nil {
		return err
	}
	cmd := goredis.NewStatusCmd(ctx, "CLIENT", "TRACKING", "ON", "REDIRECT", id, "BCAST", "PREFIX", prefix)
	return conn.Process(ctx, cmd)
}

// sleep reports whether d went by before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
