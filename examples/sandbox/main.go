// Sandbox is a workspace for an agent, as an MCP server: files, commands, git, a browser,
// and servers that are added while it runs.
//
//	go run ./examples/sandbox -root DIR
//	go run ./examples/sandbox -root DIR -addr 127.0.0.1:6060 [-token T | -open] [-control-token T]
//
// It speaks over standard input and output, or over HTTP at /mcp, with control routes
// beside it. Files are those of the directory and no others; what commands start ends with
// them.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// grace is how long calls may take to finish when the program is told to end.
const grace = 5 * time.Second

func main() {
	guard := process.Main()
	log.SetFlags(0)
	o := options{sidecars: map[string]sidecar{"codex": codex()}}
	flag.StringVar(&o.root, "root", os.Getenv("WORKSPACE_DIR"), "the `directory` to work in")
	flag.StringVar(&o.address, "addr", "", "the `address` to serve HTTP at, such as 127.0.0.1:6060; port 0 takes a free one")
	flag.StringVar(&o.customMCP, "custom-mcp", "", "a `file` with mcpServers, to be there from the start")
	flag.StringVar(&o.token, "token", "", "what callers over HTTP must show; by default it is random")
	flag.StringVar(&o.controlToken, "control-token", "", "what callers of the control routes must show; by default it is random")
	flag.BoolVar(&o.open, "open", false, "programs on this machine need no token for /mcp")
	flag.BoolVar(&o.deferred, "defer", false, "no tools before POST /credential and /tool-server-url")
	flag.StringVar(&o.toolHosts, "tool-hosts", "", "`hosts` that a tool server may be at beside this one, with commas")
	flag.StringVar(&o.policy, "policy", "", "a `file` with the policy for calls; what it asks about, the caller's person decides")
	flag.StringVar(&o.pass, "pass", "", "variables that commands get beside PATH, HOME and their like, with `commas`")
	flag.StringVar(&o.browser, "browser", "npx -y @playwright/mcp@"+playwrightVersion, "the `command` of the Playwright MCP server")
	flag.StringVar(&o.chromium, "chromium", "chromium", "the browser's `program`")
	flag.Func("sidecar", "a program that POST /sidecars/NAME starts: `NAME=URL COMMAND ARGUMENTS`", o.addSidecar)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, guard, o, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

// options are the flags.
type options struct {
	root, address, customMCP string
	token, controlToken      string
	open, deferred           bool
	toolHosts                string
	policy                   string
	pass                     string
	browser, chromium        string
	sidecars                 map[string]sidecar
}

func (o *options) addSidecar(text string) error {
	name, s, err := parseSidecar(text)
	o.sidecars[name] = s
	return err
}

func run(ctx context.Context, guard *process.Guard, o options, said io.Writer) error {
	s, err := newSandbox(ctx, guard, o, slog.New(slog.NewTextHandler(said, nil)))
	if err != nil {
		return err
	}
	if o.address == "" {
		err = stdio.Serve(ctx, s.face, nil)
	} else {
		err = s.serveHTTP(ctx, said)
	}
	return errors.Join(err, s.close(ctx))
}
