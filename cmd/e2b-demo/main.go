// Command e2b-demo is a first try of the gateway without anything to install or
// to configure: the gateway and a pretend ROCK in one process, on loopback. It
// prints what an E2B SDK needs to know and runs until it is told to stop.
//
// It must never become part of the production binary: the pretend ROCK runs
// commands for whoever asks.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	listen  string
	tls     bool
	redis   bool
	domain  string
	profile string
	envFile string

	open      bool
	secondKey bool
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "127.0.0.1:3002", "loopback `address` of the gateway; port 0 picks a free one")
	flag.BoolVar(&o.tls, "tls", false, "serve HTTPS with a certificate authority of the demo's own")
	flag.StringVar(&o.domain, "domain", "", "a host for every port of every sandbox below this `name`, such as sandbox.localhost; with -tls")
	flag.BoolVar(&o.redis, "redis", false, "keep the sandbox registry in a real redis-server, which must be installed")
	flag.StringVar(&o.profile, "profile", "rock", "what the sandboxes speak: `rock` (output when a command is over, as ROCK does it) or envd (everything E2B has)")
	flag.StringVar(&o.envFile, "env-file", "", "also write the export lines to this `file`")
	flag.BoolVar(&o.secondKey, "second-key", false, "also make an API key of another owner, exported as E2B_SECOND_API_KEY: it sees none of the first one's sandboxes")
	flag.BoolVar(&o.open, "open", false, "let everybody who reaches the gateway in, whatever API key and token they send")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "e2b-demo: %q is no option\n", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "e2b-demo:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "e2b-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	d, err := deploy(ctx, o, dir)
	if err != nil {
		return err
	}
	defer d.close()
	gateway, err := serve(o, dir, d)
	if err != nil {
		return err
	}
	defer gateway.stop()

	env := gateway.environment()
	if o.envFile != "" {
		if err := os.WriteFile(o.envFile, []byte(env), 0o600); err != nil {
			return err
		}
	}
	who := "The key is good until the demo ends."
	if o.open {
		who = "Everybody gets in: the key is there because SDKs want one."
	}
	if o.domain != "" {
		who += resolved(ctx, o.domain)
	}
	fmt.Fprintf(out, "The gateway listens on %s, in front of a pretend ROCK (%s).\n%s\n\n%s\n%s\nCtrl-C ends it.\n", gateway.url, d.addresses(), who, env, programs(o))
	<-ctx.Done()
	fmt.Fprintln(out, "\nStopping.")
	return nil
}

// resolved is what to say if the hosts of sandboxes do not lead to this machine.
func resolved(ctx context.Context, domain string) string {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", "api."+domain)
	if err == nil && slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.Unmap().IsLoopback() }) {
		return ""
	}
	return "\nNames below " + domain + " do not lead to this machine, so SDKs find nothing: take -domain sandbox.localhost and install\n" +
		"libnss-myhostname, or any name whose subdomains your DNS answers with 127.0.0.1."
}
