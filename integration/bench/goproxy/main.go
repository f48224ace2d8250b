// Command goproxy is what the gateway is held against: the standard library's
// reverse proxy and nothing else, or, with -redis, the same with one GET of the
// sandbox's record for each request, which is how E2B's own client-proxy finds a
// sandbox. Only `make bench` runs it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "where to listen")
	upstream := flag.String("upstream", "", "host:port that all requests go to, without -redis")
	redis := flag.String("redis", "", "host:port of the Redis with the sandboxes' records")
	cert := flag.String("cert", "", "certificate, PEM; with it HTTPS is spoken, HTTP/2 too")
	key := flag.String("key", "", "the certificate's key, PEM")
	flag.Parse()

	find := fixed(*upstream)
	if *redis != "" {
		find = registered(*redis)
	}
	server := &http.Server{Addr: *listen, Handler: handler(find), ReadHeaderTimeout: time.Minute}
	if *cert != "" {
		log.Fatal(server.ListenAndServeTLS(*cert, *key))
	}
	log.Fatal(server.ListenAndServe())
}

// finder finds the host:port of a request's sandbox.
type finder func(*http.Request) (string, error)

func fixed(address string) finder {
	return func(*http.Request) (string, error) { return address, nil }
}

// record is as much of ROCK's record as a proxy needs.
type record struct {
	State       string         `json:"state"`
	HostIP      string         `json:"host_ip"`
	PortMapping map[string]int `json:"port_mapping"`
}

var errNotRunning = errors.New("the sandbox is not running, or has no such port")

// registered asks Redis for each request, for at most a second, as E2B does.
func registered(address string) finder {
	client := goredis.NewClient(&goredis.Options{Addr: address})
	return func(r *http.Request) (string, error) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		b, err := client.Get(ctx, "alive:"+r.Header.Get("E2b-Sandbox-Id")).Bytes()
		if err != nil {
			return "", err
		}
		var rec record
		if err := json.Unmarshal(b, &rec); err != nil {
			return "", err
		}
		port := rec.PortMapping[r.Header.Get("E2b-Sandbox-Port")]
		if rec.State != "running" || port == 0 {
			return "", errNotRunning
		}
		return (&net.TCPAddr{IP: net.ParseIP(rec.HostIP), Port: port}).String(), nil
	}
}

type targetKey struct{}

// handler sends requests to where find says.
func handler(find finder) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme = "http"
			r.Out.URL.Host = r.In.Context().Value(targetKey{}).(string)
		},
		Transport: &http.Transport{
			DisableCompression: true, MaxIdleConnsPerHost: 1024, IdleConnTimeout: 25 * time.Second,
			DialContext: (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target, err := find(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		// Without it one in some hundred streams is cut when its answer begins
		// before the request's body has been seen to end (golang/go#40747).
		// HTTP/2 is full duplex without being asked, and says that it cannot be.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, target)))
	})
}
