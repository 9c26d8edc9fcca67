package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/workspace"
)

const (
	maxOutput     = 64 << 10               // bytes kept of each output stream of a command
	progressEvery = 200 * time.Millisecond // interval of progress reports
)

// Commands are the tools that run programs. All processes of a command end with it.
type Commands struct {
	guard *process.Guard
	dir   string

	mu  sync.Mutex
	env []string
}

// Annotations returns the annotations of all methods.
func (*Commands) Annotations() server.Annotations {
	return server.Annotations{Tool: mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)}}
}

// RunCommandIn are the arguments of [Commands.RunCommand].
type RunCommandIn struct {
	_       server.ToolTag `idempotent:"false" tags:"commands"`
	Command string         `json:"command" jsonschema:"minLength=1,maxLength=100000"`                   // shell command, run in the workspace
	Timeout float64        `json:"timeout,omitempty" jsonschema:"minimum=0.1,maximum=3600,default=120"` // seconds until the command and its processes are killed
}

// A CommandResult is the outcome of a command.
type CommandResult struct {
	ExitCode  int    `json:"exit_code"` // 128 plus the signal number if a signal ended the command
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated"` // the output is incomplete; usually its end is kept
	TimedOut  bool   `json:"timed_out"`
}

// RunCommand runs a command and waits for its end. Processes that it leaves in the background
// are killed: use run_background for them. The command has no standard input.
func (c *Commands) RunCommand(ctx context.Context, r *server.Request, in RunCommandIn) (CommandResult, error) {
	timeout, cancel := context.WithTimeout(ctx, time.Duration(in.Timeout*float64(time.Second)))
	defer cancel()
	stdout, stderr := process.Output{Max: maxOutput}, process.Output{Max: maxOutput}
	command := c.in(process.Shell(in.Command))
	command.Stdout, command.Stderr = &stdout, &stderr
	p, err := c.guard.Start(command)
	if err != nil {
		return CommandResult{}, err
	}
	exit, err := p.Follow(timeout, progressEvery, func(written int64, last []byte) {
		last = last[max(0, len(last)-workspace.MaxLine):]
		_ = r.Progress(timeout, float64(written), 0, strings.ToValidUTF8(strings.TrimSpace(string(last)), "\uFFFD")) // an error means that the caller does not listen
	}, &stdout, &stderr)
	if err != nil {
		exit = p.Stop()
	}
	if ctx.Err() != nil {
		return CommandResult{}, context.Cause(ctx) // the caller has cancelled the call
	}
	return CommandResult{
		ExitCode: exit.Code, Stdout: stdout.Text(), Stderr: stderr.Text(),
		Truncated: exit.Truncated || stdout.Written() > maxOutput || stderr.Written() > maxOutput, TimedOut: err != nil,
	}, nil
}

// in sets the directory and the environment of a command.
func (c *Commands) in(command *process.Command) *process.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	command.Dir, command.Env = c.dir, slices.Concat(c.env, command.Env)
	return command
}

// set sets an environment variable of later commands.
func (c *Commands) set(name, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env = append(slices.DeleteFunc(c.env, func(v string) bool { return strings.HasPrefix(v, name+"=") }), name+"="+value)
}

// writeTime bounds the time in which a command reads its input.
const writeTime = 5 * time.Second

// Background are the tools for commands in the background.
type Background struct {
	commands *Commands
	jobs     process.Jobs
}

// RunBackgroundIn are the arguments of [Background.RunBackground].
type RunBackgroundIn struct {
	_       server.ToolTag `destructive:"true" idempotent:"false" openWorld:"true" timeout:"30s" tags:"commands"`
	Command string         `json:"command" jsonschema:"minLength=1,maxLength=100000"` // shell command, run in the workspace
}

// RunBackground starts a command and does not wait for it. The command runs until it ends, is
// stopped, or the sandbox ends.
func (b *Background) RunBackground(_ context.Context, in RunBackgroundIn) (process.JobState, error) {
	job, err := b.jobs.Start(in.Command, b.commands.in(process.Shell(in.Command)))
	if err != nil {
		return process.JobState{}, err
	}
	return job.State(), nil
}

// BackgroundListIn is the annotation of [Background.BackgroundList].
type BackgroundListIn struct {
	_ server.ToolTag `readOnly:"true" openWorld:"false" tags:"commands"`
}

// A JobList lists the commands in the background.
type JobList struct {
	Jobs []process.JobState `json:"jobs"`
}

// BackgroundList lists the commands in the background, including those that have ended.
func (b *Background) BackgroundList(context.Context, BackgroundListIn) (JobList, error) {
	return JobList{b.jobs.States()}, nil
}

// BackgroundReadIn are the arguments of [Background.BackgroundRead].
type BackgroundReadIn struct {
	_     server.ToolTag `readOnly:"true" openWorld:"false" timeout:"2m" tags:"commands"`
	ID    string         `json:"id"`                                               // id from run_background
	Since int64          `json:"since,omitempty" jsonschema:"minimum=0"`           // skip this number of bytes: next of the previous call
	Wait  int            `json:"wait,omitempty" jsonschema:"minimum=0,maximum=60"` // seconds to wait for the end of the command
}

// A JobOutput is output of a command in the background.
type JobOutput struct {
	process.JobState
	Output  string `json:"output"`
	Next    int64  `json:"next"`     // value of since for the next call
	LeftOut int64  `json:"left_out"` // bytes at the beginning that were discarded
}

// BackgroundRead returns the output of a command in the background.
func (b *Background) BackgroundRead(ctx context.Context, in BackgroundReadIn) (JobOutput, error) {
	job, err := b.jobs.Find(in.ID)
	if err != nil {
		return JobOutput{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(in.Wait)*time.Second)
	defer cancel()
	_, _ = job.Wait(ctx) // an error means that the command still runs
	now := job.State()
	output, next, left := job.Output.Since(in.Since)
	return JobOutput{JobState: now, Output: strings.ToValidUTF8(string(output), "\uFFFD"), Next: next, LeftOut: left}, nil
}

// BackgroundWriteIn are the arguments of [Background.BackgroundWrite].
type BackgroundWriteIn struct {
	_     server.ToolTag `destructive:"true" idempotent:"false" openWorld:"true" timeout:"10s" tags:"commands"`
	ID    string         `json:"id"`              // id from run_background
	Text  string         `json:"text"`            // input, including the line break
	Close bool           `json:"close,omitempty"` // close the input afterwards
}

// BackgroundWrite writes to the standard input of a command in the background. It fails if
// the command does not read the input within some seconds.
func (b *Background) BackgroundWrite(_ context.Context, in BackgroundWriteIn) (string, error) {
	job, err := b.jobs.Find(in.ID)
	if err != nil {
		return "", err
	}
	_, err = job.WriteWithin(writeTime, []byte(in.Text))
	if err == nil && in.Close {
		err = job.CloseInput()
	}
	return fmt.Sprintf("Wrote %d bytes to %s", len(in.Text), in.ID), err
}

// BackgroundStopIn are the arguments of [Background.BackgroundStop].
type BackgroundStopIn struct {
	_  server.ToolTag `destructive:"true" idempotent:"true" openWorld:"false" timeout:"20s" tags:"commands"`
	ID string         `json:"id"` // id from run_background
}

// BackgroundStop kills a command in the background and its processes.
func (b *Background) BackgroundStop(_ context.Context, in BackgroundStopIn) (process.JobState, error) {
	job, err := b.jobs.Find(in.ID)
	if err != nil {
		return process.JobState{}, err
	}
	job.Stop()
	return job.State(), nil
}

// maxPorts bounds the number of registered ports.
const maxPorts = 16

// Ports is the tool that forwards URLs to servers in the sandbox.
type Ports struct {
	logger *slog.Logger

	mu    sync.Mutex
	ports map[int]*http.Server
	group sync.WaitGroup // running servers
}

// RegisterPortIn are the arguments of [Ports.RegisterPort].
type RegisterPortIn struct {
	_    server.ToolTag `destructive:"false" idempotent:"true" openWorld:"true" timeout:"30s" tags:"ports"`
	Port int            `json:"port" jsonschema:"minimum=1,maximum=65535"` // port of the server on this machine
}

// A PortURL is the URL of a registered port.
type PortURL struct {
	URL string `json:"url"`
}

// RegisterPort forwards a URL to an HTTP server in the sandbox. It waits until the server
// listens.
func (p *Ports) RegisterPort(ctx context.Context, in RegisterPortIn) (PortURL, error) {
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	target, err := process.AwaitLoopback(waiting, in.Port)
	if err != nil {
		return PortURL{}, fmt.Errorf("nothing listens at port %d: start the server with run_background", in.Port)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if web := p.ports[in.Port]; web != nil {
		return PortURL{"http://" + web.Addr + "/"}, nil
	}
	if len(p.ports) >= maxPorts {
		p.removeClosed()
	}
	if len(p.ports) >= maxPorts {
		return PortURL{}, fmt.Errorf("%d ports are registered already", maxPorts)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return PortURL{}, err
	}
	web := &http.Server{Addr: listener.Addr().String(), Handler: forward(target), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	if p.ports == nil {
		p.ports = make(map[int]*http.Server)
	}
	p.ports[in.Port] = web
	p.group.Go(func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.logger.Error("a registered port is not served any more", "port", in.Port, "error", err)
		}
	})
	return PortURL{"http://" + web.Addr + "/"}, nil
}

// removeClosed removes ports whose server no longer listens.
func (p *Ports) removeClosed() {
	for port, web := range p.ports {
		if _, ok := process.Loopback(port); !ok {
			_ = web.Close() // the error has no effect
			delete(p.ports, port)
		}
	}
}

// forward returns a reverse proxy to an address of this machine. It refuses foreign host
// names, which protects against DNS rebinding. It forwards WebSockets and no other upgrade:
// after one to HTTP/2, requests would pass that nothing here checks.
func forward(address string) http.Handler {
	target := &url.URL{Scheme: "http", Host: address}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		if !strings.EqualFold(r.Out.Header.Get("Upgrade"), "websocket") {
			r.Out.Header.Del("Upgrade")
			r.Out.Header.Del("Connection")
		}
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil || host != "127.0.0.1" && host != "localhost" {
			http.Error(w, "expected a request for this machine", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

func (p *Ports) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, web := range p.ports {
		errs = append(errs, web.Close())
	}
	p.group.Wait()
	return errors.Join(errs...)
}

// Todo are the tools for the task list.
type Todo struct {
	mu   sync.Mutex
	list []TodoItem
}

// Annotations returns the annotations of all methods.
func (*Todo) Annotations() server.Annotations { return closedWorld() }

// A TodoItem is a task.
type TodoItem struct {
	ID       string `json:"id" jsonschema:"minLength=1,maxLength=100"`
	Content  string `json:"content" jsonschema:"minLength=1,maxLength=1000"`                  // description of the task
	Status   string `json:"status" jsonschema:"enum=pending,enum=in_progress,enum=completed"` // at most one task is in_progress
	Priority string `json:"priority,omitempty" jsonschema:"enum=high,enum=medium,enum=low,default=medium"`
}

// TodoReadIn is the annotation of [Todo.TodoRead].
type TodoReadIn struct {
	_ server.ToolTag `readOnly:"true" tags:"todo"`
}

// A TodoList is the list of all tasks.
type TodoList struct {
	Todos []TodoItem `json:"todos"`
}

// TodoRead returns the task list.
func (t *Todo) TodoRead(context.Context, TodoReadIn) (TodoList, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return TodoList{append([]TodoItem{}, t.list...)}, nil
}

// TodoWriteIn are the arguments of [Todo.TodoWrite].
type TodoWriteIn struct {
	_     server.ToolTag `destructive:"true" idempotent:"true" tags:"todo"`
	Todos []TodoItem     `json:"todos" jsonschema:"maxItems=200"` // the complete new list
}

// TodoWrite replaces the task list.
func (t *Todo) TodoWrite(_ context.Context, in TodoWriteIn) (string, error) {
	ids, active := make(map[string]bool), 0
	for _, item := range in.Todos {
		if ids[item.ID] {
			return "", fmt.Errorf("the id %q is there twice", item.ID)
		}
		ids[item.ID] = true
		if item.Status == "in_progress" {
			active++
		}
	}
	if active > 1 {
		return "", fmt.Errorf("%d are in_progress: at most one may be", active)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = slices.Clone(in.Todos)
	return fmt.Sprintf("Entries in the list: %d", len(t.list)), nil
}
