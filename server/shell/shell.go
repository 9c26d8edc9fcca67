package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/workspace"
)

//go:generate go run ../mcpgen

// Defaults of [Options].
const (
	// defaultMaxCommands is the default of [Options].MaxCommands.
	defaultMaxCommands = 16
	// defaultMaxSessions is the default of [Options].MaxSessions.
	defaultMaxSessions = 10
	// defaultMaxPorts is the default of [Options].MaxPorts.
	defaultMaxPorts = 16
)

// Options configure a [Shell]. The zero value is ready to use. A limit of 0 means its default.
type Options struct {
	// Env lists environment variables of all commands as "name=value", in addition to HOME,
	// PATH and similar ones; see process.Variables.
	Env []string
	// PortURL is the public URL of a port, with {port} in place of its number, such as
	// "https://{port}-host.example". It must lead to the ports of this machine, for example
	// through a reverse proxy of the operator. register_port returns it for the ports that it would
	// forward otherwise; see Ports. By default it returns the URL of a proxy on 127.0.0.1, which this
	// package starts.
	PortURL string
	// PushURLs are the repositories to which git_push may push, such as "https://git.example/project.git". git uses the
	// credentials of the user's own configuration, such as a credential helper or a key. By default there is no git_push.
	PushURLs []string
	// NPM offers npm_install, npm_run and npm_test. npm reaches the network, and runs the scripts of package.json, as
	// run_command may. By default there are no such tools.
	NPM bool
	// MaxCommands is the number of calls of run_command, session_run and the tools for git and npm that may
	// run at the same time. Default 16.
	MaxCommands int
	// MaxJobs is the number of commands that may run in the background at the same time.
	// Default 16.
	MaxJobs int
	// MaxSessions is the number of sessions that may be open at the same time. Default
	// 10.
	MaxSessions int
	// MaxProcesses is the number of processes of one command or session; all of them are killed
	// when there are more. Default 256. Only Linux enforces it.
	MaxProcesses int
	// MaxOutput is the number of bytes that are kept of each output stream of run_command, and
	// of the output of session_run. Default 64 KiB.
	MaxOutput int
	// Ports are the ports that register_port forwards whatever process listens there. It forwards another port only
	// while a command of the shell listens there, and on systems other than Linux, which do not say which process
	// listens, no other port.
	Ports []int
	// MaxPorts is the number of registered ports, without PortURL. Default 16.
	MaxPorts int
	// Logger logs errors of registered ports. Default slog.Default().
	Logger *slog.Logger
}

// A Shell runs programs in the directory of a workspace. Create one with [New] and offer its
// tools with [Shell.Tools]. All methods may be called concurrently.
type Shell struct {
	guard        *process.Guard // of commands
	servers      *process.Guard // of StartServer
	workspace    *workspace.Workspace
	credentials  Credentials
	maxOutput    int
	maxProcesses int
	pushURLs     []string
	npm          bool

	running  chan struct{} // one element for each running command
	closing  context.Context
	close    context.CancelCauseFunc
	onceDone func() error

	jobs     process.Jobs
	sessions sessions
	ports    ports
	todo     todo

	mu  sync.Mutex
	env []string
}

// New returns a shell for a workspace. guard starts all commands; it is the result of
// process.Main. Close the shell before the workspace. The error says which option is invalid.
// opts may be nil.
func New(guard *process.Guard, w *workspace.Workspace, opts *Options) (*Shell, error) {
	o := *cmp.Or(opts, new(Options))
	if guard == nil || w == nil {
		return nil, errors.New("shell: expected a guard and a workspace")
	}
	for name, limit := range map[string]int{
		"MaxCommands": o.MaxCommands, "MaxJobs": o.MaxJobs, "MaxSessions": o.MaxSessions, "MaxProcesses": o.MaxProcesses, "MaxOutput": o.MaxOutput, "MaxPorts": o.MaxPorts,
	} {
		if limit < 0 {
			return nil, fmt.Errorf("shell: Options.%s: expected 0 or more, got %d", name, limit)
		}
	}
	if err := checkPushURLs(o.PushURLs); err != nil {
		return nil, err
	}
	if o.PortURL != "" {
		if err := checkTemplate(o.PortURL); err != nil {
			return nil, err
		}
	}
	s := &Shell{
		guard: guard.Separate(), servers: guard, workspace: w,
		maxOutput: cmp.Or(o.MaxOutput, 64<<10), maxProcesses: o.MaxProcesses, pushURLs: slices.Clone(o.PushURLs), npm: o.NPM,
		running: make(chan struct{}, cmp.Or(o.MaxCommands, defaultMaxCommands)),
		ports:   ports{allowed: slices.Clone(o.Ports), template: o.PortURL, limit: cmp.Or(o.MaxPorts, defaultMaxPorts), logger: cmp.Or(o.Logger, slog.Default())},
		env:     slices.Clone(o.Env),
	}
	s.jobs = process.Jobs{Guard: s.guard, Max: o.MaxJobs}
	s.ports.owns = s.guard.Owns
	s.sessions = sessions{shell: s, limit: cmp.Or(o.MaxSessions, defaultMaxSessions)}
	s.closing, s.close = context.WithCancelCause(context.Background())
	s.onceDone = sync.OnceValue(s.stop)
	return s, nil
}

// Tools returns the tools of the shell, for server.Server.Replace. They have accurate
// annotations and a tag: "commands", "git", "npm", "ports" or "todo".
func (s *Shell) Tools() ([]*server.Entry, error) {
	services := []any{&commands{s}, &background{s}, &s.sessions, &git{s}, &s.ports, &s.todo}
	if len(s.pushURLs) > 0 {
		services = append(services, &push{&git{s}, s.pushURLs})
	}
	if s.npm {
		services = append(services, &npm{s})
	}
	var entries []*server.Entry
	for _, service := range services {
		more, err := server.Service(service)
		if err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	}
	return entries, nil
}

// Credentials returns the credentials that commands may use by name. At first there are none.
func (s *Shell) Credentials() *Credentials { return &s.credentials }

// Setenv sets an environment variable of all later commands, such as the URL of a service. Use
// [Credentials] for secrets. The error says that name is not a name of a variable, or that
// value contains NUL.
func (s *Shell) Setenv(name, value string) error {
	if !isVariable(name) || strings.ContainsRune(value, 0) {
		return fmt.Errorf("shell: the environment variable %.256q: expected letters, digits and underscores, and a value without NUL", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.env = append(slices.DeleteFunc(s.env, func(v string) bool { return strings.HasPrefix(v, name+"=") }), name+"="+value)
	return nil
}

// StartServer starts a program with the directory and environment of the commands, and waits
// until it listens at a TCP address, as process.Guard.StartServer does. The caller must stop
// the process.
func (s *Shell) StartServer(ctx context.Context, c *process.Command, address string) (*process.Process, error) {
	command := *c
	return s.servers.StartServer(ctx, s.command(&command), address)
}

// command sets the directory, the environment and the limit of a command.
func (s *Shell) command(c *process.Command) *process.Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Dir, c.Env, c.MaxProcesses = s.workspace.Dir(), slices.Concat(s.env, c.Env), s.maxProcesses
	return c
}

// ErrTooManyCommands says that [Options].MaxCommands commands are running.
var ErrTooManyCommands = errors.New("shell: too many commands are running: wait until one has ended")

// begin registers the run of a command, which ends with the shell. end must be called after it.
func (s *Shell) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	select {
	case s.running <- struct{}{}:
	default:
		err = ErrTooManyCommands
		if s.closing.Err() != nil {
			err = process.ErrClosed
		}
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.closing, func() { cancel(process.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		<-s.running
	}, nil
}

// Close ends all commands and the forwarding of ports, and waits for that. Later calls of the
// tools that start something fail with process.ErrClosed.
func (s *Shell) Close() error { return s.onceDone() }

func (s *Shell) stop() error {
	s.close(process.ErrClosed)
	s.jobs.Close()
	s.sessions.close()
	for range cap(s.running) {
		s.running <- struct{}{} // waits for each command, and lets no other start
	}
	return s.ports.close()
}

// closedWorld annotates tools that use only the workspace.
func closedWorld() server.Annotations {
	return server.Annotations{Tool: mcp.ToolAnnotations{OpenWorldHint: new(false)}}
}
