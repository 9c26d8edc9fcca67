package process

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	// dialTimeout bounds one attempt to connect.
	dialTimeout = time.Second
	// dialInterval is the pause between two attempts.
	dialInterval = 50 * time.Millisecond
)

// listens reports whether a TCP server listens at address.
func listens(address string) bool { return dial(context.Background(), address) == nil }

func dial(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	_ = conn.Close()
	return nil
}

// Loopback returns the loopback address, 127.0.0.1 or else ::1, at which a TCP server listens
// on port. ok is false if there is none.
func Loopback(port int) (address string, ok bool) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		if address = net.JoinHostPort(host, strconv.Itoa(port)); listens(address) {
			return address, true
		}
	}
	return "", false
}

// AwaitLoopback polls [Loopback] until it finds a server. If ctx ends first, the error is the
// cause of ctx.
func AwaitLoopback(ctx context.Context, port int) (address string, err error) {
	err = poll(ctx, nil, func() (ok bool) {
		address, ok = Loopback(port)
		return ok
	})
	return address, err
}

// AwaitPort waits until a TCP server listens at address, which the command should do. The
// error says that the command has ended, or is the cause of ctx.
func (p *Process) AwaitPort(ctx context.Context, address string) error {
	return poll(ctx, p, func() bool { return dial(ctx, address) == nil })
}

// poll calls ready until it returns true, ctx ends, or p, which may be nil, has ended.
func poll(ctx context.Context, p *Process, ready func() bool) error {
	tick := time.NewTicker(dialInterval)
	defer tick.Stop()
	var done <-chan struct{}
	if p != nil {
		done = p.done
	}
	for !ready() {
		select {
		case <-tick.C:
		case <-done:
			return fmt.Errorf("process: the command has ended with exit status %d", p.exit.Code)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// StartServer starts a command and waits until it listens at a TCP address. The command is
// stopped if ctx ends first. It is not started if a server listens there already. StartServer
// ignores the command's Stdout and Stderr; the error quotes what the command has written.
func (g *Guard) StartServer(ctx context.Context, c *Command, address string) (*Process, error) {
	if listens(address) {
		return nil, fmt.Errorf("process: another server listens at %s", address)
	}
	command, output := *c, &Output{} // the command would block on a full pipe
	command.Stdout, command.Stderr = output, output
	p, err := g.Start(&command)
	if err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	if err := p.AwaitPort(ctx, address); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%w; its output is %.500q", err, output.String())
	}
	return p, nil
}
