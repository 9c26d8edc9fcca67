package stdio

import (
	"io"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Defaults of [CommandOptions].
const (
	// DefaultGrace is how long a child may take to exit after each step of the
	// ladder: end of input, TERM.
	DefaultGrace = 2 * time.Second
	// StderrKept is how many bytes of the end of a child's standard error are
	// kept for errors.
	StderrKept = 64 << 10
	// exitGrace is how long a failed call waits to learn how the process ended.
	exitGrace = 100 * time.Millisecond
	// killGrace bounds waiting for a child that was killed.
	killGrace = time.Second
	// holdGrace is how long a child's output may stay open after its exit, held
	// by a child of its own.
	holdGrace = 50 * time.Millisecond
)

// CommandOptions configure [Command]. The zero value is good.
type CommandOptions struct {
	// Env is added to the environment, in the form of exec.Cmd's: by default a
	// child gets HOME, LOGNAME, PATH, SHELL, TERM, USER and their like only.
	Env []string
	// InheritEnv gives the child this process's whole environment.
	InheritEnv bool
	// Dir is the child's working directory. By default it is this process's.
	Dir string
	// Stderr takes what the child writes to standard error. It must not block
	// for long. By default nothing does; the last 64 KiB are kept for errors in
	// any case.
	Stderr io.Writer
	// Grace is how long the child may take to exit after its input has ended,
	// and again after TERM, before it is killed. Default 2 s.
	Grace time.Duration
	// MaxLine is the longest message in bytes. Default 16 MiB.
	MaxLine int
	// Conn are the limits of the connection.
	Conn jsonrpc.Options
}
