package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/caddy-e2b/gateway/integration/envd"
	"github.com/caddy-e2b/gateway/integration/ownnet"
)

// Ports inside every container.
const (
	rockletPort = 22555
	envdPort    = 49983
)

// door is the socket by which the host reaches the network of a container: a connection begins with the number of a port,
// two bytes, and is that port's from then on.
func door(name string) string { return filepath.Join(directory(name), "door") }

// publish starts the container and listens on its ports of the host.
func publish(c container, cmd *exec.Cmd) {
	for port, host := range c.Ports {
		l, err := net.Listen("tcp", ":"+strconv.Itoa(host))
		must(err)
		inner, err := strconv.Atoi(port)
		must(err)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go enter(c.Name, conn, inner)
			}
		}()
	}
	must(cmd.Start())
}

// enter carries a connection of the host to a port of the container.
func enter(name string, conn net.Conn, port int) {
	defer conn.Close()
	in, err := net.Dial("unix", door(name))
	if err != nil {
		return // it is starting, or has ended
	}
	defer in.Close()
	if binary.Write(in, binary.BigEndian, uint16(port)) == nil {
		join(conn, in)
	}
}

// join copies both directions, each until its end.
func join(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(a, b)
		closeWrite(a)
		close(done)
	}()
	_, _ = io.Copy(b, a)
	closeWrite(b)
	<-done
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// inside is the first process of a container.
func inside(c container) {
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("proc", "/proc", "proc", 0, ""))
	must(ownnet.RaiseLoopback())
	_ = os.Remove(door(c.Name))
	doors, err := net.Listen("unix", door(c.Name))
	must(err)
	go func() {
		for {
			conn, err := doors.Accept()
			must(err)
			go answer(conn)
		}
	}()
	daemon, err := envd.New(envd.Options{Root: filepath.Join(directory(c.Name), "root")})
	must(err)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", envdPort))
	must(err)
	go func() { must(http.Serve(l, daemon)) }()

	rocklet := exec.Command(os.Getenv("ROCKLET"), "--host", "127.0.0.1", "--port", strconv.Itoa(rockletPort))
	rocklet.Dir = filepath.Join(directory(c.Name), "root")
	rocklet.Stdout, rocklet.Stderr = os.Stdout, os.Stderr
	must(rocklet.Run()) // the container ends with it
}

func answer(conn net.Conn) {
	defer conn.Close()
	var port uint16
	if binary.Read(conn, binary.BigEndian, &port) != nil {
		return
	}
	in, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return
	}
	defer in.Close()
	join(conn, in)
}
