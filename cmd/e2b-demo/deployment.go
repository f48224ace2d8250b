package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// deployment is the pretend ROCK.
type deployment struct {
	admin, proxy string // addresses
	redis        string // address, "" without one
	closers      []func()
}

func (d *deployment) close() {
	for i := len(d.closers) - 1; i >= 0; i-- {
		d.closers[i]()
	}
}

// deploy starts the pretend ROCK and, if asked for, its Redis.
func deploy(ctx context.Context, o options, dir string) (_ *deployment, err error) {
	d := &deployment{}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	opt := rock.Options{TempDir: dir, StartDelay: o.start, Rocklet: true, HostNetwork: true}
	switch o.profile {
	case "rock":
	case "envd":
		opt.Envd = envd.In
	default:
		return nil, fmt.Errorf("-profile %s: rock or envd", o.profile)
	}
	if o.redis {
		if err := d.startRedis(ctx, dir); err != nil {
			return nil, err
		}
		client := redis.NewClient(&redis.Options{Addr: d.redis})
		d.closers = append(d.closers, func() { client.Close() })
		opt.Records = rock.RedisStrings{Client: client}
	}
	cluster, err := rock.New(opt)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, func() { cluster.Close() })
	admin, err := cluster.Serve(rock.Admin, "")
	if err != nil {
		return nil, err
	}
	proxy, err := cluster.Serve(rock.Proxy, "")
	if err != nil {
		return nil, err
	}
	d.admin, d.proxy = admin.Addr(), proxy.Addr()
	return d, nil
}

// addresses are what a gateway in front of this ROCK is told.
func (d *deployment) addresses() string {
	s := "admin http://" + d.admin + ", proxy http://" + d.proxy
	if d.redis != "" {
		s += ", Redis " + d.redis
	}
	return s
}

// startRedis starts a redis-server of the demo's own, and waits until it
// answers.
func (d *deployment) startRedis(ctx context.Context, dir string) error {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("redis-server is not installed: `make demo-redis` installs it")
	}
	data := filepath.Join(dir, "redis")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	d.redis, err = freeAddress()
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(d.redis)
	cmd := exec.Command(binary, "--bind", host, "--port", port, "--dir", data, "--save", "", "--appendonly", "no")
	stop, err := startBound(cmd)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, stop)
	client := redis.NewClient(&redis.Options{Addr: d.redis})
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for client.Ping(ctx).Err() != nil {
		select {
		case <-ctx.Done():
			return errors.New("redis-server does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// startBound starts a program that does not outlive this process, whatever ends
// it. The kernel binds it to the thread that started it and not to the process
// (prctl(2), PR_SET_PDEATHSIG), so that thread is kept until the program is
// stopped.
func startBound(cmd *exec.Cmd) (stop func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, stopped := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // ends with the goroutine
		started <- cmd.Start()
		<-stopped
	}()
	stop = func() {
		if cmd.Process != nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
		close(stopped)
	}
	if err := <-started; err != nil {
		close(stopped)
		return nil, err
	}
	return stop, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
