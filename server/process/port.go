package process

import (
	"context"
	"fmt"
	"net"
	"time"
)

// AwaitPort waits until somebody listens at a TCP address, or ctx ends: the error is why
// nobody could be reached then.
func AwaitPort(ctx context.Context, address string) error {
	again := time.NewTicker(lookInterval)
	defer again.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}

// AwaitPort is the function [AwaitPort] for an address that the command should listen at. It
// ends with the command, too.
func (p *Process) AwaitPort(ctx context.Context, address string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-p.done:
			cancel(fmt.Errorf("process: it has ended with the exit status %d", p.exit.Code))
		case <-ctx.Done():
		}
	}()
	err := AwaitPort(ctx, address)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-watched
	return err
}
