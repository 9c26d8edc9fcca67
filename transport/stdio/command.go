package stdio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/procgroup"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/internal/duplex"
)

// Command returns a dialer that runs a server as a child process. Each Dial starts a new
// process. path is looked up as by exec.Command; no shell is involved. opts may be nil.
//
// The child leads a process group of its own and, on Linux, dies with this process. Close
// of a connection closes the child's input, waits, sends TERM, waits, and kills the group;
// with the default grace periods it takes at most five seconds. When the child exits, the rest
// of its group is killed and pending calls fail with an [*ExitError], even if a grandchild keeps
// its output open.
//
// On Linux, daemons of a child are killed too when it exits: processes that have left its group
// or session. They are found by the environment variable DOVETAIL_PROCESS, which each child
// gets; a process that was started without it survives. Guard.Wrap of package server/process
// ends such processes too.
func Command(path string, args []string, opts *CommandOptions) transport.Dialer {
	d := &command{path: path, args: args, opts: *cmp.Or(opts, &CommandOptions{})}
	d.opts.Grace = cmp.Or(d.opts.Grace, defaultGrace)
	d.opts.Conn.SkipMalformed = true
	if d.opts.Conn.Malformed == nil {
		d.opts.Conn.Malformed = duplex.LogMalformed(cmp.Or(d.opts.Logger, slog.Default()))
	}
	d.opts.Conn.Drain = -1 // no answer can be sent after the server's output has ended
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
	lines := jsonrpc.NewLines(c.out, c.in, closer(c.closeInput), d.opts.MaxLine)
	c.Conn = jsonrpc.NewConn(lines, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &d.opts.Conn)
	go c.run()
	return c, nil
}

func (d *command) start() (*child, error) {
	c := &child{
		grace:       d.opts.Grace,
		inputClosed: make(chan struct{}), terminated: make(chan struct{}), exited: make(chan struct{}), done: make(chan struct{}),
	}
	c.stderr = &tailBuffer{limit: maxStderr, raw: d.opts.RawStderr, secrets: peertext.NewRedactor(d.opts.Secrets...)}
	if d.opts.Stderr != nil {
		c.stderr.lines = peertext.NewWriter(d.opts.Stderr, cmp.Or(d.opts.Name, filepath.Base(d.path)), c.stderr.secrets)
	}
	c.cmd = exec.Command(d.path, d.args...)
	c.cmd.Env = append(procgroup.Environment(d.opts.InheritEnv), d.opts.Env...)
	c.cmd.Dir = d.opts.Dir
	c.cmd.Stderr = c.stderr
	// A grandchild that keeps standard error open must not block Wait.
	c.cmd.WaitDelay = outputTimeout

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
	if c.process, err = procgroup.Launch(c.cmd, syscall.SIGKILL, c.exit); err != nil {
		return nil, errors.Join(err, stdin.Close(), stdout.Close(), in.Close(), out.Close())
	}
	// The child has its own copies of these ends.
	return c, errors.Join(stdin.Close(), stdout.Close())
}

// A child is a connection to a server that runs as a child process.
type child struct {
	*jsonrpc.Conn
	cmd     *exec.Cmd
	process *procgroup.Child
	in      *os.File // to the child
	out     *os.File // from the child
	stderr  *tailBuffer
	grace   time.Duration

	inputClosed chan struct{} // closed when the child's input has been closed
	terminated  chan struct{} // closed before the child is sent TERM
	exited      chan struct{} // closed when the process has ended
	waitErr     error         // of the process; valid when exited is closed
	done        chan struct{} // closed when nothing of the connection runs
}

// exit records that the process has ended.
func (c *child) exit(err error) {
	if errors.Is(err, exec.ErrWaitDelay) { // about a grandchild
		err = nil
	}
	c.waitErr = err
	c.stderr.close()
	close(c.exited)
}

// closeInput closes the child's input and ends reading from it. The child's output stays
// open until it exits, so that a server that still writes is not killed.
func (c *child) closeInput() error {
	defer close(c.inputClosed)
	err := c.in.Close()
	if c.out.SetReadDeadline(time.Unix(1, 0)) != nil { // pipes on Windows have no deadlines
		err = errors.Join(err, c.out.Close())
	}
	return err
}

type closer func() error

func (c closer) Close() error { return c() }

// run reads from the child until the connection ends, and waits for the child.
func (c *child) run() {
	defer close(c.done)
	var tasks sync.WaitGroup
	tasks.Go(c.closeAfterExit)
	tasks.Go(c.terminate)
	_ = c.Conn.Run(context.Background()) // ExitError says more
	tasks.Go(c.discard)
	tasks.Wait()
}

// discard reads the rest of the child's output.
func (c *child) discard() {
	_ = c.out.SetReadDeadline(time.Time{}) // if it fails, so does reading
	_, _ = io.Copy(io.Discard, c.out)
}

// closeAfterExit ends the connection to a child that has exited, once its last output has
// been read. A grandchild may keep the pipe open.
func (c *child) closeAfterExit() {
	select {
	case <-c.exited:
	case <-c.Conn.Done():
		return
	}
	select {
	case <-c.Conn.Done():
	case <-time.After(outputTimeout):
		c.Conn.Close()
	}
}

// terminate waits until the child's input is closed, and then for the child. It sends TERM
// and KILL if the child does not exit.
func (c *child) terminate() {
	defer c.out.Close()
	<-c.inputClosed
	if c.exitsWithin(c.grace) {
		return
	}
	if !c.process.HasEnded() {
		close(c.terminated)
		c.process.Terminate()
	}
	if c.exitsWithin(c.grace) {
		return
	}
	c.process.Kill()
	c.exitsWithin(killTimeout)
}

func (c *child) exitsWithin(limit time.Duration) bool {
	select {
	case <-c.exited:
		return true
	case <-time.After(limit):
		return false
	}
}

// exitsByItself reports whether the child exits within the limit, and has not been sent TERM.
func (c *child) exitsByItself(limit time.Duration) bool {
	select {
	case <-c.exited:
	case <-c.terminated:
	case <-time.After(limit):
		if !c.process.HasEnded() {
			return false
		}
		<-c.exited // after the rest of its group
	}
	select {
	case <-c.terminated:
		return false
	default:
		return true
	}
}

// Close ends the child and waits for it.
func (c *child) Close() error {
	err := c.Conn.Close()
	<-c.done
	return err
}

// Done is closed when the child and everything of the connection has ended.
func (c *child) Done() <-chan struct{} { return c.done }

// Call sends a request. If the process has ended, the error says how.
func (c *child) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	resp, err := c.Conn.Call(ctx, method, params)
	return resp, duplex.Explain(err, func() error {
		if c.exitsByItself(exitTimeout) {
			return &ExitError{Err: c.waitErr, Stderr: c.stderr.String()}
		}
		return nil
	})
}

// Defaults of [CommandOptions].
const (
	// defaultGrace is how long a child may take to exit after its input is closed, and
	// again after TERM.
	defaultGrace = 2 * time.Second
	// maxStderr is how many bytes of the end of a child's standard error are kept for
	// errors.
	maxStderr = 64 << 10
	// maxErrorLines is how many lines of standard error are part of the text of an error, and
	// maxErrorLine how many bytes of each.
	maxErrorLines = 10
	maxErrorLine  = 256
	// exitTimeout is how long a failed call waits to learn how the process has ended by itself.
	exitTimeout = time.Second
	// killTimeout bounds waiting for a child that was killed.
	killTimeout = time.Second
	// outputTimeout is how long a grandchild may keep the child's output open after its
	// exit.
	outputTimeout = 50 * time.Millisecond
)

// CommandOptions configures [Command]. The zero value is valid.
type CommandOptions struct {
	// Env is added to the environment, in the form "name=value". Default: the child gets
	// only HOME, LOGNAME, PATH, SHELL, TERM, USER and similar variables.
	Env []string
	// InheritEnv gives the child the whole environment of this process.
	InheritEnv bool
	// Dir is the child's working directory. Default: the working directory of this process.
	Dir string
	// Name is the name of the server in the lines of Stderr. Default: the base name of the
	// program.
	Name string
	// Stderr receives the child's standard error in a form that is safe on a terminal and in a
	// log: as lines that begin with Name, without control, invisible and combining characters.
	// A line has at most 1 KiB. After 1000 lines or 256 KiB, the rate is at most 20 lines and
	// 4 KiB per second; the rest is counted. Each Write is one line, and should not block. It is
	// called concurrently if several children share a writer. Default: the output is discarded,
	// except that the last 64 KiB are kept for errors.
	Stderr io.Writer
	// RawStderr receives the same bytes as the child writes them, without a limit. They may
	// contain escape sequences that change what a terminal shows or does. Its Write should not
	// block. Default: none.
	RawStderr io.Writer
	// Secrets are texts that neither Stderr nor an [ExitError] contains, such as keys in Env: each
	// is replaced by [redacted]. Texts of fewer than 8 bytes have no effect.
	Secrets []string
	// Grace is how long the child may take to exit after its input is closed, and again
	// after TERM, before it is killed. Default 2 s.
	Grace time.Duration
	// MaxLine is the maximum length of a message in bytes. Default 16 MiB.
	MaxLine int
	// Conn contains the limits of the connection. SkipMalformed and Drain have no effect.
	Conn jsonrpc.Options
	// Logger logs samples of malformed messages and unexpected responses. Default slog.Default().
	Logger *slog.Logger
}

// ExitError says how a server's process has ended. It is [jsonrpc.ErrClosed] under
// errors.Is.
type ExitError struct {
	// Err is the error of exec.Cmd.Wait; nil for exit status 0.
	Err error
	// Stderr is the end of the process's standard error without [CommandOptions].Secrets: at most
	// 64 KiB. It may contain control characters.
	Stderr string
}

// Error returns how the process ended, and the last lines of its standard error that look like an
// error: at most ten, each escaped and truncated to 256 bytes. The last line with a letter is always
// one of them.
func (e *ExitError) Error() string {
	text := "the server's process has ended: exit status 0"
	if e.Err != nil {
		text = "the server's process has ended: " + e.Err.Error()
	}
	separator := ": "
	for _, line := range errorLines(e.Stderr) {
		text += separator + peertext.Quote(peertext.Cut(line, maxErrorLine))
		separator = ", "
	}
	return text
}

// Unwrap returns [jsonrpc.ErrClosed] and Err.
func (e *ExitError) Unwrap() []error {
	if e.Err == nil {
		return []error{jsonrpc.ErrClosed}
	}
	return []error{jsonrpc.ErrClosed, e.Err}
}

// errorWords are parts of lines, in lower case, that look like an error.
var errorWords = [...]string{
	"error", "exception", "panic", "fatal", "fail", "cannot", "could not", "can't", "not found", "no such", "not a ",
	"denied", "refused", "missing", "required", "invalid", "unexpected", "undefined", "unknown", "in use", "out of memory",
}

// errorLines returns the last lines that look like an error, in their order, and the last line
// with a letter. Lines of a stack trace are left out, unless one is the last.
func errorLines(text string) []string {
	var found []string
	last := ""
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		if !strings.ContainsFunc(line, unicode.IsLetter) {
			continue
		}
		last = line
		if looksLikeError(line) {
			found = append(found, line)
		}
	}
	if last != "" && (len(found) == 0 || found[len(found)-1] != last) {
		found = append(found, last)
	}
	return found[max(0, len(found)-maxErrorLines):]
}

func looksLikeError(line string) bool {
	if strings.HasPrefix(line, "at ") { // in a stack trace of JavaScript or Java
		return false
	}
	line = strings.ToLower(line)
	return slices.ContainsFunc(errorWords[:], func(word string) bool { return strings.Contains(line, word) })
}

// A tailBuffer keeps the end of what is written to it and passes everything on.
type tailBuffer struct {
	mu    sync.Mutex
	tail  []byte
	limit int
	raw   io.Writer        // may be nil
	lines *peertext.Writer // may be nil

	secrets *peertext.Redactor // may be nil
}

// Write never fails, so that a broken reader of standard error does not stop the child.
func (r *tailBuffer) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.tail = append(r.tail, p...)
	if over := len(r.tail) - r.limit - r.secrets.Longest(); over > 0 {
		r.tail = append(r.tail[:0], r.tail[over:]...)
	}
	r.mu.Unlock()
	if r.raw != nil {
		_, _ = r.raw.Write(p)
	}
	if r.lines != nil {
		_, _ = r.lines.Write(p)
	}
	return len(p), nil
}

// close passes on a line without a line break.
func (r *tailBuffer) close() {
	if r.lines != nil {
		_ = r.lines.Close() // never fails
	}
}

// String returns what has been kept, without secrets.
func (r *tailBuffer) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.secrets.Redact(string(r.tail))
	return text[max(0, len(text)-r.limit):]
}
