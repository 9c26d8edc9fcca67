package process

import (
	"cmp"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/internal/spawn"
)

// A Command says what to run.
type Command struct {
	// Path is the program, looked up as by exec.Command: one with a slash is relative to
	// Dir. Args are its arguments. No shell is involved.
	Path string
	Args []string
	// Dir is the working directory. By default it is this process's.
	Dir string
	// Env is added to the environment, in the form of exec.Cmd's: by default a command
	// gets HOME, LOGNAME, PATH, SHELL, TERM, USER and their like only.
	Env []string
	// InheritEnv gives the command this process's whole environment.
	InheritEnv bool
	// Stdout and Stderr take what it writes; they may be one writer, which is not called
	// concurrently then. One that does not return holds the command up. Once that has
	// ended, they have some seconds for the rest, and [Exit.Cut] says whether that was too
	// little. By default nothing takes it.
	Stdout, Stderr io.Writer
	// Input keeps the command's standard input open for [Process.Write]. By default there
	// is none.
	Input bool
	// Grace is how long the command, and all it has started, may take to end after TERM,
	// before they are killed. Default [DefaultGrace]. Windows kills at once.
	Grace time.Duration
	// Processes is how many processes the command may consist of. When there are more, all
	// are killed. Default [DefaultProcesses]. Only Linux counts.
	Processes int
}

// Start starts a command. It runs until it ends by itself, or by [Process.Stop].
func (g *Guard) Start(c *Command) (*Process, error) {
	path, err := c.find()
	if err != nil {
		return nil, err
	}
	orders := orders{grace: cmp.Or(c.Grace, DefaultGrace), processes: cmp.Or(c.Processes, DefaultProcesses)}
	path, args := g.command(orders, path, c.Args)
	p := &Process{cmd: exec.Command(path, args...), patience: orders.grace, done: make(chan struct{})}
	p.cmd.Dir = c.Dir
	p.cmd.Env = append(spawn.Environment(c.InheritEnv), c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = p.counted(c.Stdout), p.counted(c.Stderr)
	p.cmd.WaitDelay = holdGrace
	if g.program != "" {
		p.patience += endGrace
		p.cmd.WaitDelay = readGrace
	}
	var stdin *os.File
	if c.Input {
		if stdin, p.input, err = os.Pipe(); err != nil {
			return nil, err
		}
		defer stdin.Close() // the command has its own
		p.cmd.Stdin = stdin
	}
	if p.child, err = spawn.Launch(p.cmd, syscall.SIGTERM, p.exited); err != nil {
		_ = p.CloseInput()
		return nil, err
	}
	return p, nil
}

// find finds the program. Below a guard nobody would be told that it is not there.
func (c *Command) find() (string, error) {
	if c.Dir == "" || filepath.IsAbs(c.Path) || filepath.Base(c.Path) == c.Path {
		return exec.LookPath(c.Path)
	}
	_, err := exec.LookPath(c.Dir + string(filepath.Separator) + c.Path)
	return c.Path, err
}
