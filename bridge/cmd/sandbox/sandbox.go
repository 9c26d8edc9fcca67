package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/workspace"
)

//go:generate go run ../../../server/mcpgen

// A sandbox is the server and the state of its tools.
type sandbox struct {
	options
	logger *slog.Logger
	files  *workspace.Workspace

	face   *server.Server // serves the clients
	tools  *server.Server // tools of the sandbox, mounted in face
	custom *custom        // added servers, mounted in face

	commands   *Commands
	background *Background
	ports      *Ports
	todo       *Todo
	browser    *browser
	control    *control
}

func newSandbox(ctx context.Context, guard *process.Guard, o options, logger *slog.Logger) (*sandbox, error) {
	if o.root == "" {
		return nil, errors.New("expected the directory to work in: -root DIR, or the variable WORKSPACE_DIR")
	}
	// A file in .git may name programs that git runs.
	files, err := workspace.Open(o.root, &workspace.Options{Protected: []string{".git"}})
	if err != nil {
		return nil, err
	}
	s := &sandbox{options: o, logger: logger, files: files, todo: &Todo{}}
	s.commands = &Commands{guard: guard, dir: files.Dir(), env: process.Variables(strings.Split(o.pass, ",")...)}
	s.background = &Background{commands: s.commands, jobs: process.Jobs{Guard: guard}}
	s.ports = &Ports{logger: logger}
	s.control = &control{sandbox: s, sidecars: sidecars{commands: s.commands, known: o.sidecars}}
	if err := s.assemble(ctx); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

const instructions = "A workspace: paths are relative to it. Start programs that go on, such as servers, " +
	"with run_background; register_port says whether they listen, and gives the URL for the browser."

// assemble mounts all parts in the server.
func (s *sandbox) assemble(ctx context.Context) error {
	opts := &server.Options{Logger: s.logger, Instructions: instructions, Capabilities: everything()}
	err := s.surround(opts)
	if err != nil {
		return err
	}
	info := mcp.Implementation{Name: "sandbox", Version: "1.0.0"}
	s.face = server.New(info, opts)
	s.tools = server.New(info, &server.Options{Logger: s.logger})
	if s.browser, err = newBrowser(s.commands.guard, s.options, s.logger); err != nil {
		return err
	}
	if s.custom, err = newCustom(s); err != nil {
		return err
	}
	if s.customMCP != "" {
		err = s.custom.load(ctx, s.customMCP)
	}
	err = errors.Join(err, s.tools.Mount(s.browser, &server.MountOptions{CallMiddleware: []mcp.Middleware{explain}}), s.face.Mount(s.custom, &server.MountOptions{Prefix: customPrefix}))
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
		Logging:   &mcp.LoggingCapability{}, Completions: &mcp.CompletionsCapability{},
	}
}

// register replaces the tools of the sandbox with one notification.
func (s *sandbox) register() error {
	entries, err := workspace.Tools(s.files)
	if err != nil {
		return err
	}
	for _, service := range []any{s.commands, s.background, &Git{s.files, s.commands}, s.ports, s.todo} {
		more, err := server.Service(service)
		if err != nil {
			return err
		}
		entries = append(entries, more...)
	}
	if err := s.tools.Replace(entries...); err != nil || s.control.registered {
		return err
	}
	err = s.face.Mount(ownTools{s.tools.Provider()}, nil)
	s.control.registered = err == nil
	return err
}

// closedWorld annotates tools that use only the workspace.
func closedWorld() server.Annotations {
	return server.Annotations{Tool: mcp.ToolAnnotations{OpenWorldHint: new(false)}}
}

// close ends calls and then all processes.
func (s *sandbox) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	var err error
	if s.face != nil {
		err = s.face.Shutdown(ctx)
	}
	if s.browser != nil {
		err = errors.Join(err, s.browser.close())
	}
	s.background.jobs.Close()
	s.control.sidecars.close()
	return errors.Join(err, s.ports.close(), s.files.Close())
}
