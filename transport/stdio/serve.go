package stdio

import (
	"cmp"
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
	"github.com/dovetail-go/dovetail/transport/internal/duplex"
)

// ServeOptions configures [Serve]. The zero value is valid.
type ServeOptions struct {
	// In and Out replace standard input and output. Closing In must end a blocked Read.
	In  io.ReadCloser
	Out io.Writer
	// MaxLine is the maximum length of a message in bytes. Default 16 MiB.
	MaxLine int
	// Conn contains the limits of the connection.
	Conn jsonrpc.Options
	// Logger logs samples of malformed messages and unexpected responses. Default slog.Default().
	Logger *slog.Logger
}

// shutdownTimeout bounds the shutdown of the server's dependencies.
const shutdownTimeout = 10 * time.Second

// Serve serves one client on standard input and output. It blocks until the input or ctx ends, and returns nil then.
// opts may be nil. When the input ends, calls in progress finish and are answered. At the end Serve shuts down a server
// that is a [transport.Server], within 10 seconds. If something else shuts that server down, Serve closes the input and
// returns nil. The returned error joins the errors of the streams and of the shutdown.
//
// While Serve uses standard output, os.Stdout is standard error, so that a stray print in a
// tool, or in a child process of a tool, cannot break the protocol.
func Serve(ctx context.Context, server transport.Binder, opts *ServeOptions) error {
	o := *cmp.Or(opts, &ServeOptions{})
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.In == nil {
		o.In = interruptible(os.Stdin)
	}
	if o.Out == nil {
		out, restore := redirectStdout()
		defer restore()
		o.Out = out
	}
	if o.Conn.Malformed == nil {
		o.Conn.Malformed = duplex.LogMalformed(o.Logger)
	}
	served, stops := server.(transport.Server)
	if stops {
		in := &stoppableInput{o.In, served.Stopping()}
		o.In = in
		defer in.closeWhenStopping()()
	}
	lines := jsonrpc.NewLines(o.In, o.Out, o.In, o.MaxLine)
	conn := duplex.Serve(lines, server, "", "", &o.Conn, nil)
	err := conn.Run(ctx)
	switch {
	case ctx.Err() != nil:
		err = nil
	case err != nil:
		err = fmt.Errorf("stdio: %w", err)
	}
	if stops {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err = errors.Join(err, served.Shutdown(ending))
	}
	return err
}

// Run calls [Serve] until the process receives an interrupt or SIGTERM. It returns nil
// then.
func Run(server transport.Binder, opts *ServeOptions) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Serve(ctx, server, opts)
}

// A stoppableInput ends when a server shuts down.
type stoppableInput struct {
	io.ReadCloser
	stopping <-chan struct{}
}

// Read returns io.EOF if the server shuts down, so that calls in progress are answered.
func (in *stoppableInput) Read(p []byte) (int, error) {
	n, err := in.ReadCloser.Read(p)
	select {
	case <-in.stopping:
		if err != nil {
			err = io.EOF
		}
	default:
	}
	return n, err
}

// closeWhenStopping closes the input when the server shuts down, unless stop is called before.
func (in *stoppableInput) closeWhenStopping() (stop func()) {
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-in.stopping:
			_ = in.Close() // Read returns io.EOF, whatever the error
		case <-ended:
		}
	}()
	return func() {
		close(ended)
		<-watched
	}
}

// interruptible returns a reader of a file whose Close does not end a blocked Read, such as
// standard input. Its goroutine lasts as long as the file or the process, and reads at most
// once after Close.
func interruptible(file *os.File) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, file)
		_ = in.CloseWithError(err) // it always returns nil
	}()
	return out
}

// redirectStdout returns standard output and replaces os.Stdout by standard error.
func redirectStdout() (out *os.File, restore func()) {
	out = os.Stdout
	os.Stdout = os.Stderr
	return out, func() { os.Stdout = out }
}
