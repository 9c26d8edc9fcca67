package process

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Listens says whether somebody listens at a TCP address of this machine.
func Listens(address string) bool {
	conn, err := net.DialTimeout("tcp", address, dialTime)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Loopback is the address at which somebody listens at a TCP port of this machine: of
// 127.0.0.1, or else of ::1.
func Loopback(port int) (address string, ok bool) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		if address = net.JoinHostPort(host, strconv.Itoa(port)); Listens(address) {
			return address, true
		}
	}
	return "", false
}

// AwaitLoopback waits until there is one, or ctx ends.
func AwaitLoopback(ctx context.Context, port int) (address string, err error) {
	again := time.NewTicker(lookInterval)
	defer again.Stop()
	for {
		if address, ok := Loopback(port); ok {
			return address, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// StartServer starts a command that serves at a TCP address, whose Stdout and Stderr are not
// looked at, and waits until it listens. It is stopped when it does not until ctx ends. It is
// not started when somebody else listens there.
func (g *Guard) StartServer(ctx context.Context, c *Command, address string) (*Process, error) {
	if Listens(address) {
		return nil, fmt.Errorf("process: somebody else listens at %s", address)
	}
	command, said := *c, &Output{} // a full pipe would stop it
	command.Stdout, command.Stderr = said, said
	p, err := g.Start(&command)
	if err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	if err := p.AwaitPort(ctx, address); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%w; it says %.500q", err, said.String())
	}
	return p, nil
}

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
