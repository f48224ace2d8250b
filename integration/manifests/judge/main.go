// Command judge reads what deploy/ has for Kubernetes and for containers with the code of those who will read it: Kustomize, the API
// types of Kubernetes, its Pod Security Standards, and BuildKit. It is a module of its own, so that none of them decides what the
// gateway is built of.
//
//	judge kustomize DIRECTORY   renders a kustomization and prints its objects as JSON, one a line
//	judge containerfile FILE    prints the instructions of a container file as JSON, one a line
//
// An object with a field that Kubernetes does not know, or twice, is an error, and so is a pod that breaks the Pod Security Standard
// "restricted", and a container file that BuildKit refuses or warns of.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 {
		switch args[0] {
		case "kustomize":
			return kustomize(args[1])
		case "containerfile":
			return containerfile(args[1])
		}
	}
	return fmt.Errorf("usage: judge kustomize DIRECTORY | judge containerfile FILE")
}
