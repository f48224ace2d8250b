// Command docker stands in for the docker client on the PATH of a real ROCK: a "container" is a network of its own with
// what ROCK asks for in it, the real rocklet, and an envd beside it. ROCK's code that calls it runs unchanged.
//
// It knows the commands that ROCK's DockerDeployment gives, and refuses all others loudly. Images, quotas, mounts and
// limits are none of its business: there is one image, and it is always there.
//
// DOCKER_STAND_IN names the directory in which it keeps its containers, ROCKLET the rocklet to run.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// container is what `docker create` has been told, as far as it matters.
type container struct {
	Name string `json:"name"`
	// Ports are those of the host, by that of the container.
	Ports  map[string]int `json:"ports"`
	Remove bool           `json:"remove"` // --rm
}

func main() {
	args := os.Args[1:]
	if len(args) > 1 && args[0] == "--config" {
		args = args[2:]
	}
	if len(args) == 0 {
		fail("no command")
	}
	switch command := args[0]; command {
	case "--version":
		fmt.Println("Docker version 0, a stand-in")
	case "info":
		fmt.Println(`{"Driver":"vfs","DockerRootDir":"/","DriverStatus":[]}`)
	case "pull", "login", "image":
	case "ps":
		for _, c := range all() {
			fmt.Println(c.Name)
		}
	case "inspect":
		inspect(args[1:])
	case "create":
		create(args[1:])
	case "start":
		start(args[len(args)-1])
	case "kill", "stop":
		if !end(args[len(args)-1]) {
			fail("not running: " + args[len(args)-1])
		}
	case "rm":
		name := args[len(args)-1]
		end(name)
		_ = os.RemoveAll(directory(name))
	case "run-inside":
		inside(load(args[1]))
	default:
		fail("the stand-in knows no " + command)
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, "docker stand-in:", text)
	os.Exit(1)
}

func must(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func directory(name string) string { return filepath.Join(os.Getenv("DOCKER_STAND_IN"), name) }

func load(name string) container {
	var c container
	content, err := os.ReadFile(filepath.Join(directory(name), "container.json"))
	must(err)
	must(json.Unmarshal(content, &c))
	return c
}

func all() (list []container) {
	entries, err := os.ReadDir(os.Getenv("DOCKER_STAND_IN"))
	must(err)
	for _, e := range entries {
		list = append(list, load(e.Name()))
	}
	return list
}

// create reads `--name NAME`, `--rm` and each `-p HOST:CONTAINER`.
func create(args []string) {
	c := container{Ports: map[string]int{}}
	for i, arg := range args {
		switch arg {
		case "--name":
			c.Name = args[i+1]
		case "--rm":
			c.Remove = true
		case "-p":
			host, port, _ := strings.Cut(args[i+1], ":")
			n, err := strconv.Atoi(host)
			must(err)
			c.Ports[port] = n
		}
	}
	dir := directory(c.Name)
	must(os.MkdirAll(filepath.Join(dir, "root"), 0o755))
	content, err := json.Marshal(c)
	must(err)
	must(os.WriteFile(filepath.Join(dir, "container.json"), content, 0o600))
}

// inspect answers what ROCK asks of containers, their ports, and finds every image.
func inspect(args []string) {
	if args[0] != "--format" {
		fmt.Println("[{}]")
		return
	}
	if args[1] != "{{json .HostConfig.PortBindings}}" {
		return // graph drivers and mounts: nothing
	}
	for _, name := range args[2:] {
		bindings := map[string][]map[string]string{}
		for port, host := range load(name).Ports {
			bindings[port+"/tcp"] = []map[string]string{{"HostIp": "", "HostPort": strconv.Itoa(host)}}
		}
		content, err := json.Marshal(bindings)
		must(err)
		fmt.Println(string(content))
	}
}

// start runs the container and stays until it has ended. As with docker, the container outlives its client.
func start(name string) {
	c := load(name)
	self, err := os.Executable()
	must(err)
	log, err := os.OpenFile(filepath.Join(directory(name), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	cmd := exec.Command(self, "run-inside", name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	publish(c, cmd)
	must(os.WriteFile(filepath.Join(directory(name), "pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
	err = cmd.Wait()
	_ = os.Remove(filepath.Join(directory(name), "pid"))
	if c.Remove {
		_ = os.RemoveAll(directory(name))
	}
	if err != nil {
		os.Exit(137)
	}
}

// end kills a container that runs, and waits until it has ended.
func end(name string) bool {
	file := filepath.Join(directory(name), "pid")
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	must(err)
	pid, err := strconv.Atoi(string(content))
	must(err)
	_ = syscall.Kill(pid, syscall.SIGKILL) // and with the first all others in it
	for range 500 {
		if syscall.Kill(pid, 0) != nil {
			_ = os.Remove(file)
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	fail("does not end: " + name)
	return false
}
