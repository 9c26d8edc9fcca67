package stdio

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

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

// Serve serves one client on standard input and output until input ends, which
// is nil, or ctx does. Calls that run when input ends may finish and are answered.
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
	if err := conn.Run(ctx); err != nil {
		return fmt.Errorf("stdio: %w", err)
	}
	return nil
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
