package handlers

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestARestartGoesOnWithoutWhoeverAskedForItAndNotWithoutItsGateway(t *testing.T) {
	left, cancel := context.WithCancel(t.Context())
	cancel()
	var r flights
	var tasks sync.WaitGroup
	started := make(chan struct{})
	begun, err := r.join(left, &tasks, "a", func() error { <-started; return nil })
	if !begun || !errors.Is(err, context.Canceled) || !r.pending("a") {
		t.Fatal(begun, err)
	}
	close(started)
	tasks.Wait()
	if r.pending("a") {
		t.Error("who waits for the gateway's tasks has not waited for the restart")
	}
}
