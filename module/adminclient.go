package module

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// adminClient asks the admin API of a gateway that runs, in another process.
type adminClient struct {
	address string // as Caddy has it
	origin  string
	http    *http.Client
}

// adminFlags are the flags of commands that ask a running gateway. It is found as
// Caddy's own "stop" and "reload" find it.
func adminFlags(cmd *cobra.Command) {
	cmd.Flags().String("address", "", "the address of the admin endpoint (default: that of --config, else "+caddy.DefaultAdminListen+")")
	configFlags(cmd)
	cmd.Flags().Lookup("config").Usage = "the config that says where the admin endpoint is"
}

// adminAt is the client that the flags name.
func adminAt(flags caddycmd.Flags) (*adminClient, error) {
	address, err := caddycmd.DetermineAdminAPIAddress(flags.String("address"), nil, flags.String("config"), flags.String("adapter"))
	if err != nil {
		return nil, err
	}
	at, err := caddy.ParseNetworkAddress(address)
	if err != nil || at.PortRangeSize() > 1 {
		return nil, fmt.Errorf("%q is no address of an admin endpoint, such as localhost:2019 or unix//run/e2b-gateway/admin.sock", address)
	}
	c := &adminClient{address: address, origin: "http://" + at.JoinHostPort(0)}
	if at.IsUnixNetwork() {
		c.origin = "http://127.0.0.1"
		at.Host, _, _ = strings.Cut(at.Host, "|") // without the mode of the socket
	}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, at.Network, at.JoinHostPort(0))
		},
		ResponseHeaderTimeout: 30 * time.Second,
	}}
	return c, nil
}

const (
	// maxAdminAnswer is the longest answer that is read, in bytes.
	maxAdminAnswer = 64 << 20
	// adminPatience is how long an answer may take. The gateway bounds its own
	// questions to registries and stores below it.
	adminPatience = 30 * time.Second
)

// call sends a request with a JSON body, unless that is nil, and decodes the answer
// into to. The error is that of the gateway, or says that there is none.
func (c *adminClient) call(method, path string, body, to any) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminPatience)
	defer cancel()
	response, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAdminAnswer)).Decode(to); err != nil {
		return fmt.Errorf("the answer of the admin endpoint at %s cannot be read: %w", c.address, err)
	}
	return nil
}

// stream sends a GET and calls line with each line of the answer.
func (c *adminClient) stream(path string, line func(json.RawMessage) error) error {
	response, err := c.send(context.Background(), http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for lines := json.NewDecoder(response.Body); ; {
		var one json.RawMessage
		switch err := lines.Decode(&one); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the connection to the admin endpoint at %s was lost: %w", c.address, err)
		}
		if err := line(one); err != nil {
			return err
		}
	}
}

// send returns an answer with a status of success, whose body the caller closes.
func (c *adminClient) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.origin+path, content)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Origin", c.origin) // Caddy wants it from who is no browser, too
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(r)
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return nil, fmt.Errorf("no gateway answers at the admin endpoint %s (%w): is it running, and is --address or --config its own?", c.address, dial.Err)
	case err != nil:
		return nil, fmt.Errorf("asking the admin endpoint at %s: %w", c.address, err)
	case response.StatusCode/100 == 2:
		return response, nil
	}
	defer response.Body.Close()
	return nil, refusal(response, c.address)
}

// adminError is an answer with a status of failure.
type adminError struct {
	Status int
	Text   string
}

func (e *adminError) Error() string { return e.Text }

// refusal is the error in an answer of Caddy's.
func refusal(response *http.Response, address string) error {
	const longest = 64 << 10
	b, _ := io.ReadAll(io.LimitReader(response.Body, longest))
	var told struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(b, &told) == nil && told.Error != "" {
		return &adminError{response.StatusCode, told.Error}
	}
	if response.StatusCode == http.StatusNotFound {
		return &adminError{response.StatusCode, fmt.Sprintf("the admin endpoint at %s is of a Caddy without this gateway, or of an older one", address)}
	}
	return &adminError{response.StatusCode, fmt.Sprintf("the admin endpoint at %s answered with status %d", address, response.StatusCode)}
}
