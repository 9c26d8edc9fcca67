package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/internal/spawn"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// Command returns a dialer that runs a server as a child process, anew for each
// Dial. path is looked up as by exec.Command; no shell is involved.
//
// The child leads a process group of its own and, on Linux, dies with this
// process. Closing the connection ends its input, waits, sends TERM, waits, and
// kills the group; it takes five seconds at the most. When the child exits, calls
// that wait fail at once, even if a grandchild holds its output open.
func Command(path string, args []string, opts *CommandOptions) transport.Dialer {
	d := &command{path: path, args: args}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Grace == 0 {
		d.opts.Grace = DefaultGrace
	}
	d.opts.Conn.SkipMalformed = true
	d.opts.Conn.Drain = -1 // when a server's output ends, nothing waits for answers any more
	return d
}

type command struct {
	path string
	args []string
	opts CommandOptions
}

// Dial starts the child.
func (d *command) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	c, err := d.start()
	if err != nil {
		return nil, fmt.Errorf("stdio: starting %s: %w", d.path, err)
	}
	lines := jsonrpc.NewLines(c.out, c.in, closer(c.hangUp), &jsonrpc.LineOptions{MaxLine: d.opts.MaxLine})
	c.Conn = jsonrpc.NewConn(lines, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &d.opts.Conn)
	go c.run()
	return c, nil
}

func (d *command) start() (*child, error) {
	c := &child{
		grace:  d.opts.Grace,
		hungUp: make(chan struct{}), exited: make(chan struct{}), done: make(chan struct{}),
	}
	c.stderr = &ring{most: StderrKept, next: d.opts.Stderr}
	c.cmd = exec.Command(d.path, d.args...)
	c.cmd.Env = append(spawn.Environment(d.opts.InheritEnv), d.opts.Env...)
	c.cmd.Dir = d.opts.Dir
	c.cmd.Stderr = c.stderr
	// A grandchild that holds standard error open must not hold up Wait.
	c.cmd.WaitDelay = holdGrace

	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	c.cmd.Stdin, c.cmd.Stdout = stdin, stdout
	c.in, c.out = in, out
	if c.process, err = spawn.Launch(c.cmd, syscall.SIGKILL, c.exit); err != nil {
		return nil, errors.Join(err, stdin.Close(), stdout.Close(), in.Close(), out.Close())
	}
	// The child has its own copies of these ends.
	return c, errors.Join(stdin.Close(), stdout.Close())
}

// A child is a connection to a server that runs as a child process.
type child struct {
	*jsonrpc.Conn
	cmd     *exec.Cmd
	process *spawn.Child
	in      *os.File // to the child
	out     *os.File // from the child
	stderr  *ring
	grace   time.Duration

	hungUp  chan struct{} // closed when the child's input has been ended
	exited  chan struct{} // closed when the process has ended
	waitErr error         // how, valid then
	done    chan struct{} // closed when nothing runs any more
}

// exit notes that the process has ended.
func (c *child) exit(err error) {
	if errors.Is(err, exec.ErrWaitDelay) { // that is about somebody else
		err = nil
	}
	c.waitErr = err
	close(c.exited)
}

// hangUp ends the child's input, and reading from it. Its output stays open until
// it has ended: what a server has still to say must not kill it.
func (c *child) hangUp() error {
	defer close(c.hungUp)
	err := c.in.Close()
	if c.out.SetReadDeadline(time.Unix(1, 0)) != nil { // pipes of Windows have no deadlines
		err = errors.Join(err, c.out.Close())
	}
	return err
}

type closer func() error

func (c closer) Close() error { return c() }

// run reads from the child until it ends, and sees that it does.
func (c *child) run() {
	defer close(c.done)
	var tasks sync.WaitGroup
	tasks.Go(c.cutOff)
	tasks.Go(c.end)
	_ = c.Conn.Run(context.Background()) // that it has ended is what matters; ExitError tells why
	tasks.Go(c.discard)
	tasks.Wait()
}

// discard reads what the child says when nobody listens any more.
func (c *child) discard() {
	_ = c.out.SetReadDeadline(time.Time{}) // it fails when out is closed, as reading does then
	_, _ = io.Copy(io.Discard, c.out)
}

// cutOff ends the connection to a child that has exited, once what it wrote last
// has been read: a grandchild may hold the pipe open for ever.
func (c *child) cutOff() {
	select {
	case <-c.exited:
	case <-c.Conn.Done():
		return
	}
	timer := time.NewTimer(holdGrace)
	defer timer.Stop()
	select {
	case <-c.Conn.Done():
	case <-timer.C:
		c.Conn.Close()
	}
}

// end waits for the end of the child's input and leads it down the ladder from
// there: TERM, KILL.
func (c *child) end() {
	defer c.out.Close()
	<-c.hungUp
	if c.waits(c.grace) {
		return
	}
	c.process.Terminate()
	if c.waits(c.grace) {
		return
	}
	c.process.Kill()
	c.waits(killGrace)
}

func (c *child) waits(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	}
}

// Close ends the child and waits for it.
func (c *child) Close() error {
	err := c.Conn.Close()
	<-c.done
	return err
}

// Done is closed when the child and everything about it has ended.
func (c *child) Done() <-chan struct{} { return c.done }

// Call sends a request. When the process has ended over it, the error says how.
func (c *child) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	resp, err := c.Conn.Call(ctx, method, params)
	var failed *jsonrpc.CallError
	if errors.As(err, &failed) && errors.Is(failed.Err, jsonrpc.ErrClosed) && c.waits(exitGrace) {
		return nil, &jsonrpc.CallError{Method: method, Delivery: failed.Delivery, Err: &ExitError{Err: c.waitErr, Stderr: c.stderr.String()}}
	}
	return resp, err
}
