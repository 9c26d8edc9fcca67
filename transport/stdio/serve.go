package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// ServeOptions configure [Serve]. The zero value is good.
type ServeOptions struct {
	// In and Out replace standard input and output. Closing In must end a
	// blocked read.
	In  io.ReadCloser
	Out io.Writer
	// MaxLine is the longest message in bytes. Default 16 MiB.
	MaxLine int
	// Conn are the limits of the connection.
	Conn jsonrpc.Options
	// Logger takes what was received and was no message. Default
	// slog.Default().
	Logger *slog.Logger
}

// shutdownTimeout bounds how long what a server depends on may take to stop.
const shutdownTimeout = 10 * time.Second

// Serve serves one client on standard input and output until input or ctx ends: both are
// nil. Calls that run when input ends may finish and are answered. At the end a server
// that is a [transport.Server] is shut down, within 10 seconds.
//
// While it serves the standard streams, os.Stdout is standard error: a stray
// print in a tool, or in a child process that a tool starts, cannot break the
// protocol.
func Serve(ctx context.Context, server transport.Binder, opts *ServeOptions) error {
	var o ServeOptions
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.In == nil {
		o.In = interruptible(os.Stdin)
	}
	if o.Out == nil {
		out, restore := takeStdout()
		defer restore()
		o.Out = out
	}
	if o.Conn.Malformed == nil {
		o.Conn.Malformed = func(err error) { o.Logger.Warn("not a message", "error", err) }
	}
	lines := jsonrpc.NewLines(o.In, o.Out, o.In, &jsonrpc.LineOptions{MaxLine: o.MaxLine})
	conn := jsonrpc.NewConn(lines, func(c *jsonrpc.Conn) jsonrpc.Handler {
		return server.Bind(transport.Link{Peer: c, Input: c.Input(), Go: c.Go})
	}, &o.Conn)
	err := conn.Run(ctx)
	switch {
	case ctx.Err() != nil:
		err = nil
	case err != nil:
		err = fmt.Errorf("stdio: %w", err)
	}
	if server, ok := server.(transport.Server); ok {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err = errors.Join(err, server.Shutdown(ending))
	}
	return err
}

// Run is [Serve] until the process gets an interrupt or SIGTERM, which is nil.
func Run(server transport.Binder, opts *ServeOptions) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Serve(ctx, server, opts)
}

// interruptible reads a file whose own Close would not end a blocked read, as is
// the case with standard input. The goroutine that reads cannot be ended either: it
// lasts as long as the file or the process, and reads at most once after Close.
func interruptible(file *os.File) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, file)
		_ = in.CloseWithError(err) // nil always
	}()
	return out
}

// takeStdout keeps standard output for the protocol and gives everything else
// that prints standard error instead.
func takeStdout() (out *os.File, restore func()) {
	out = os.Stdout
	os.Stdout = os.Stderr
	return out, func() { os.Stdout = out }
}
