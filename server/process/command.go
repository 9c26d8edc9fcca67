package process

import (
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/procgroup"
)

// Defaults of a [Command].
const (
	// defaultGrace is the default of [Command].Grace.
	defaultGrace = 2 * time.Second
	// defaultMaxProcesses is the default of [Command].MaxProcesses.
	defaultMaxProcesses = 256
)

const (
	// outputGrace is how long reading the output may continue after a command without a
	// guard process has ended. A process that has escaped may hold the output open.
	outputGrace = 250 * time.Millisecond
	// guardedOutputGrace is the same for a command below a guard process, where no process
	// that could hold the output open is left.
	guardedOutputGrace = 5 * time.Second
	// guardGrace is how long a guard process may take to end, in addition to the grace of
	// its command, before it is killed.
	guardGrace = 5 * time.Second
)

// A Command describes a program to run. Path is required.
type Command struct {
	// Path is the program, looked up as exec.Command does. A path with a slash is relative
	// to Dir. Args are its arguments. No shell is involved.
	Path string
	Args []string
	// Dir is the working directory. Default: the working directory of this process.
	Dir string
	// Env lists additional environment variables as "name=value". A command otherwise gets
	// only HOME, LOGNAME, PATH, SHELL, TERM, USER and similar variables.
	Env []string
	// Secrets lists further environment variables as "name=value". Each occurrence of such a
	// value in the command's output is replaced by [Redacted]. A value that the command prints
	// in another encoding is not recognized, and other processes of the same user may read the
	// environment of the command.
	Secrets []string
	// InheritEnv gives the command the whole environment of this process.
	InheritEnv bool
	// Stdout and Stderr receive the command's output; nil discards it. They may be the same
	// writer, which is then not called concurrently. A Write that blocks delays the command.
	// After the command has ended, the rest of the output is read for some seconds;
	// [Exit.Truncated] reports that it could not be read completely.
	Stdout, Stderr io.Writer
	// Input keeps the command's standard input open for [Process.Write]. Otherwise standard
	// input is empty.
	Input bool
	// Grace is how long the command and its descendants may take to end after SIGTERM before
	// they are killed. Default 2 s. Windows kills immediately.
	Grace time.Duration
	// MaxProcesses is the highest permitted number of processes. All are killed when there
	// are more. Default 256. Only Linux enforces it.
	MaxProcesses int
}

// Shell returns a command that runs script with bash, or with sh where there is no bash. On
// Windows it uses cmd.
func Shell(script string) *Command {
	if runtime.GOOS == "windows" {
		return &Command{Path: "cmd", Args: []string{"/c", script}}
	}
	path := "sh"
	if _, err := exec.LookPath("bash"); err == nil {
		path = "bash"
	}
	return &Command{Path: path, Args: []string{"-c", script}}
}

// Variables returns the environment variables of this process with the given names, as
// [Command].Env expects them. Names that are not set are left out.
func Variables(names ...string) []string {
	var env []string
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Start starts a command. The command runs until it ends by itself or [Process.Stop] is
// called. A program that does not exist is exec.ErrNotFound or os.ErrNotExist.
func (g *Guard) Start(c *Command) (*Process, error) {
	path, err := c.lookPath()
	if err != nil {
		return nil, err
	}
	supervision := procgroup.Supervision{Grace: cmp.Or(c.Grace, defaultGrace), MaxProcesses: cmp.Or(c.MaxProcesses, defaultMaxProcesses)}
	path, args := g.commandLine(supervision, path, c.Args)
	p := &Process{cmd: exec.Command(path, args...), stopTimeout: supervision.Grace, secrets: secretValues(c.Secrets), done: make(chan struct{})}
	p.cmd.Dir = c.Dir
	p.cmd.Env = slices.Concat(procgroup.Environment(c.InheritEnv), c.Env, c.Secrets)
	p.cmd.Stdout, p.cmd.Stderr = p.trackEnd(c.Stdout), p.trackEnd(c.Stderr)
	p.cmd.WaitDelay = outputGrace
	if g.program != "" {
		p.stopTimeout += guardGrace
		p.cmd.WaitDelay = guardedOutputGrace
	}
	if c.Input {
		var stdin *os.File
		if stdin, p.input, err = os.Pipe(); err != nil {
			return nil, err
		}
		defer stdin.Close() // the command has a duplicate
		p.cmd.Stdin = stdin
	}
	if p.child, err = procgroup.Launch(p.cmd, syscall.SIGTERM, p.exited); err != nil {
		_ = p.CloseInput()
		return nil, err
	}
	g.add(p)
	return p, nil
}

// lookPath finds the program before a guard process starts, which could not report that the
// program does not exist.
func (c *Command) lookPath() (string, error) {
	if c.Dir == "" || filepath.IsAbs(c.Path) || filepath.Base(c.Path) == c.Path {
		return exec.LookPath(c.Path)
	}
	_, err := exec.LookPath(c.Dir + string(filepath.Separator) + c.Path)
	return c.Path, err
}

// A stream copies one output stream of a command, redacts it and records whether it reached
// the end. Streams of the same process and writer are equal, which makes package os/exec copy
// standard output and standard error one after the other.
type stream struct {
	io.Writer
	process *Process
}

// trackEnd wraps w so that p.unread counts the stream until its end is read. A file is passed
// to the command directly, unless its output must be redacted, and is not tracked.
func (p *Process) trackEnd(w io.Writer) io.Writer {
	if _, file := w.(*os.File); file && len(p.secrets) == 0 || w == nil {
		return w
	}
	return stream{w, p}
}

// ReadFrom is how package os/exec copies the output.
func (s stream) ReadFrom(r io.Reader) (int64, error) {
	s.process.unread.Add(1)
	w := s.Writer
	var redacted *peertext.RedactingWriter
	if secrets := s.process.secrets; len(secrets) > 0 {
		redacted = peertext.NewRedactingWriter(w, secrets)
		w = redacted
	}
	n, err := io.Copy(w, r)
	if redacted != nil {
		err = errors.Join(err, redacted.Close())
	}
	if err == nil {
		s.process.unread.Add(-1)
	}
	return n, err
}

// Redacted replaces the values of [Command].Secrets in the output of a command.
const Redacted = peertext.Redacted

// secretValues returns the values of environment variables, except empty ones.
func secretValues(env []string) (values []string) {
	for _, variable := range env {
		if _, value, _ := strings.Cut(variable, "="); value != "" {
			values = append(values, value)
		}
	}
	return values
}
