package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/control"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/shell"
	"github.com/dovetail-go/dovetail/server/workspace"
)

// A sandbox is the server and the state of its tools.
type sandbox struct {
	options
	logger *slog.Logger
	files  *workspace.Workspace

	shell *shell.Shell

	server     *server.Server   // serves the clients
	tools      *server.Server   // tools of the sandbox, mounted in server
	added      *control.Servers // added servers, mounted in server
	browser    *browser
	registered bool // tools is mounted
}

func newSandbox(ctx context.Context, guard *process.Guard, o options, logger *slog.Logger) (*sandbox, error) {
	if o.root == "" {
		return nil, errors.New("expected the directory to work in: -root DIR, or the variable WORKSPACE_DIR")
	}
	// A file in .git may name programs that git runs.
	files, err := workspace.Open(o.root, &workspace.Options{Protected: []string{".git"}, Raw: o.raw})
	if err != nil {
		return nil, err
	}
	s := &sandbox{options: o, logger: logger, files: files}
	s.shell, err = shell.New(guard, files, &shell.Options{Env: process.Variables(strings.Split(o.pass, ",")...), PortURL: o.portURL, Ports: o.ports, PushURLs: o.push, NPM: o.npm, Logger: logger})
	if err == nil {
		err = s.mount(ctx, guard)
	}
	if err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

const instructions = "A workspace: paths are relative to it. Start programs that go on, such as servers, " +
	"with run_background; register_port says whether they listen, and gives the URL for the browser."

// mount mounts all parts in the server.
func (s *sandbox) mount(ctx context.Context, guard *process.Guard) error {
	opts := &server.Options{Logger: s.logger, Instructions: instructions, Capabilities: everything()}
	err := s.addPolicy(opts)
	if err != nil {
		return err
	}
	info := mcp.Implementation{Name: "sandbox", Version: "1.0.0"}
	s.server = server.New(info, opts)
	s.tools = server.New(info, &server.Options{Logger: s.logger})
	if s.browser, err = newBrowser(guard, s.options, s.files, s.logger); err != nil {
		return err
	}
	// Added servers run supervised, in the workspace.
	dial := &config.DialOptions{Wrap: guard.Wrap, Dir: s.files.Dir(), Stderr: os.Stderr, Logger: s.logger}
	if s.added, err = control.NewServers(&control.ServersOptions{Dial: dial, Reserved: []string{own}, Logger: s.logger}); err != nil {
		return err
	}
	if s.customMCP != "" {
		err = s.added.Load(ctx, s.customMCP)
	}
	err = errors.Join(err, s.tools.Mount(s.browser, &server.MountOptions{CallMiddleware: []mcp.Middleware{explain, s.browser.files.middleware}}), s.server.Mount(s.added, &server.MountOptions{Prefix: control.Prefix}))
	if err != nil || s.deferred {
		return err
	}
	return s.register()
}

// everything declares all kinds of entries, because an added server may offer them later and
// clients subscribe at the start.
func everything() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{
		Tools: &mcp.ToolsCapability{ListChanged: true}, Prompts: &mcp.PromptsCapability{ListChanged: true},
		Resources: &mcp.ResourcesCapability{ListChanged: true, Subscribe: true},
		Logging:   &mcp.EmptyObject{}, Completions: &mcp.EmptyObject{},
	}
}

// register replaces the tools of the sandbox with one notification.
func (s *sandbox) register() error {
	entries, err := workspace.Tools(s.files)
	if err != nil {
		return err
	}
	more, err := s.shell.Tools()
	if err != nil {
		return err
	}
	entries = append(append(entries, more...), s.browser.screenshot())
	if err := s.tools.Replace(entries...); err != nil || s.registered {
		return err
	}
	err = s.server.Mount(ownTools{s.tools.Provider()}, nil)
	s.registered = err == nil
	return err
}

// close ends calls and then all processes.
func (s *sandbox) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	var err error
	if s.server != nil {
		err = s.server.Shutdown(ctx)
	}
	if s.browser != nil {
		err = errors.Join(err, s.browser.close())
	}
	if s.shell != nil {
		err = errors.Join(err, s.shell.Close())
	}
	return errors.Join(err, s.files.Close())
}
