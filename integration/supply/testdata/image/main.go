// Command image is the version that an image is built with.
package main

import (
	"fmt"

	"github.com/caddy-e2b/gateway/version"
)

func main() { fmt.Println(version.Running()) }
