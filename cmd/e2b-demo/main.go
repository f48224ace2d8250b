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
	"os"
	"os/signal"
	"syscall"
)

// options are the command line.
type options struct {
	listen  string
	tls     bool
	redis   bool
	profile string
	envFile string

	open      bool
	secondKey bool
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "127.0.0.1:3002", "loopback `address` of the gateway; port 0 picks a free one")
	flag.BoolVar(&o.tls, "tls", false, "serve HTTPS with a certificate authority of the demo's own")
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
	fmt.Fprintf(out, "The gateway listens on %s, in front of a pretend ROCK (admin http://%s, proxy http://%s).\n%s\n\n%s\n%s\nCtrl-C ends it.\n", gateway.url, d.admin, d.proxy, who, env, programs)
	<-ctx.Done()
	fmt.Fprintln(out, "\nStopping.")
	return nil
}

// programs are to be pasted after the export lines.
const programs = `Python (pip install e2b==2.34.0):

import os; from e2b import Sandbox
sandbox = Sandbox.create(os.environ["E2B_TEMPLATE_ID"], metadata={"from": "demo"})
print(sandbox.commands.run("echo hello from $(uname -s)").stdout)
sandbox.files.write("hello.txt", "hello"); print(sandbox.files.read("hello.txt"))
print("killed:", sandbox.kill())

JavaScript (npm install e2b; save as demo.mjs):

import { Sandbox } from 'e2b'
const sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, { metadata: { from: 'demo' } })
console.log((await sandbox.commands.run('echo hello from $(uname -s)')).stdout)
await sandbox.files.write('hello.txt', 'hello'); console.log(await sandbox.files.read('hello.txt'))
console.log('killed:', await sandbox.kill())
`
