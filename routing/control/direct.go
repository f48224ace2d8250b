package control

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// direct is the Doer for a registry that is used on its own.
type direct struct {
	bases     []*url.URL
	transport *http.Transport
}

func newDirect(addresses []string) (*direct, error) {
	if len(addresses) == 0 {
		return nil, errors.New("control: no address")
	}
	d := &direct{transport: &http.Transport{
		// Not the environment's proxy: what is asked stays inside. And no
		// compression, which costs more than it saves on answers this small.
		Proxy:               nil,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
		MaxConnsPerHost:     64,
		IdleConnTimeout:     20 * time.Second, // less than the 30s of the admin role
	}}
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("control: address %q is not http://host:port or https://host:port", a)
		}
		d.bases = append(d.bases, u)
	}
	return d, nil
}

// Do tries one address after the other until one can be connected to.
// Redirects are not followed: they are answers that say nothing.
func (d *direct) Do(request *http.Request) (*http.Response, error) {
	var last error
	for _, base := range d.bases {
		one := request.Clone(request.Context())
		one.URL = &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/") + request.URL.Path}
		response, err := d.transport.RoundTrip(one)
		if err == nil {
			return response, nil
		}
		last = err
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" || request.Context().Err() != nil {
			break
		}
	}
	return nil, last
}
