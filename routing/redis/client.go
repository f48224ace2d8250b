package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Client reads other things than routes from Redis, over connections that are
// made as a Registry's are.
type Client struct {
	client  goredis.UniversalClient
	secret  *strings.Replacer
	timeout time.Duration
}

// NewClient returns a client for what cfg says about connections. It opens none
// yet. Its owner calls Close.
func NewClient(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	quiet()
	return &Client{goredis.NewUniversalClient(options), redactor(cfg), cfg.Timeout}, nil
}

// Close closes all connections.
func (c *Client) Close() error { return c.client.Close() }

// Hash returns the fields of a hash, none when there is no such key. It returns
// within Config.Timeout. An error holds no password.
func (c *Client) Hash(ctx context.Context, key string) (fields map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err = onLiving(ctx, c.client, func() error {
		fields, err = c.client.HGetAll(ctx, key).Result()
		return err
	})
	if err != nil && !errors.Is(err, goredis.Nil) {
		return nil, redacted{c.secret.Replace(err.Error()), err}
	}
	return fields, nil
}

// Publish sends a message to whoever listens on the channel now. An error holds
// no password.
func (c *Client) Publish(ctx context.Context, channel string, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := onLiving(ctx, c.client, func() error { return c.client.Publish(ctx, channel, message).Err() })
	if err != nil {
		return redacted{c.secret.Replace(err.Error()), err}
	}
	return nil
}

// Listen calls heard with every message that is published on the channel from
// now on, until ctx ends. What is published while there is no connection is
// missed. An error, which holds no password, says that it could not begin.
func (c *Client) Listen(ctx context.Context, channel string, heard func(message string)) error {
	in := c.client.Subscribe(ctx, channel)
	defer in.Close()
	if _, err := in.ReceiveTimeout(ctx, c.timeout); err != nil {
		return redacted{c.secret.Replace(err.Error()), err}
	}
	messages := in.Channel() // connects again by itself
	defer func() {
		// Else go-redis waits for a minute to get rid of a message that nobody reads.
		in.Close()
		for range messages {
		}
	}()
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return nil
			}
			heard(m.Payload)
		case <-ctx.Done():
			return nil
		}
	}
}

// onLiving asks once, on a connection that lives and leads to who may be asked: those
// that were opened before a failover may lead to the old master, which is a replica.
func onLiving(ctx context.Context, client goredis.UniversalClient, ask func() error) (err error) {
	for range staleConnections {
		idle := client.PoolStats().IdleConns
		if err = ask(); idle == 0 || !lost(err) && !goredis.IsReadOnlyError(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}
