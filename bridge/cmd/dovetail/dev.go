package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

var devCommand = &command{
	name: "dev", args: "[FLAGS] -- COMMAND [ARG…]", short: "serve a server, and restart it when its source changes",
	long: `The client keeps its session and is notified of changed lists. go run is replaced by go build: if
the build fails, or the new program does not start, the old one keeps running. go run with -exec or
with a version runs unchanged. Standard error shows the messages, the output of builds, and the
standard error of the server. It also has the link to a page with the calls and the last build.`,
	run: runDev,
}

type devOptions struct {
	watch, ext, http, console string
	quiet                     bool
	interval                  time.Duration
	command                   []string
}

func runDev(ctx context.Context, env *environment, sub *command, line []string) error {
	o := &devOptions{}
	flags := newFlags(sub, env.stderr)
	flags.StringVar(&o.watch, "watch", "", "the `folder` with the source (default the current folder, or the folder of -C of go run)")
	flags.StringVar(&o.ext, "ext", "", "the `extensions` of source files, separated by commas (default go,mod,sum,html,tmpl,css,js,sql for go run, and otherwise the extensions of widespread languages)")
	flags.StringVar(&o.http, "http", "", "serve HTTP at this loopback `address`, without a token, at /mcp, in place of standard input and output")
	flags.StringVar(&o.console, "console", "", "serve the console at this loopback `address` beside standard input and output (default 127.0.0.1:0); -http has it at /console/")
	flags.BoolVar(&o.quiet, "quiet", false, "do not show the messages")
	flags.DurationVar(&o.interval, "interval", 300*time.Millisecond, "how often the files are checked")
	args, command, err := flags.parse(line)
	if err != nil {
		return err
	}
	if len(args) > 0 || command == nil || o.interval <= 0 {
		return flags.usage()
	}
	if o.http != "" && o.console != "" {
		return misuse("-console is for standard input and output: with -http, the console is at /console/")
	}
	if o.http == "" {
		o.console, err = loopbackAddress("console", cmp.Or(o.console, "127.0.0.1:0"))
	} else {
		o.http, err = loopbackAddress("http", o.http)
	}
	if err != nil {
		return err
	}
	o.command = command
	return dev(ctx, o, env)
}

// A devServer is a server under development.
type devServer struct {
	opts   *devOptions
	env    *environment
	build  *goBuild // nil: the command is run as it is
	said   *startOutput
	logger *slog.Logger
	bridge *bridge.Bridge
	server *server.Server // mounts bridge
	runs   int

	recorder *console.Recorder
	console  *console.Console
}

func dev(ctx context.Context, o *devOptions, env *environment) error {
	d := &devServer{
		opts: o, env: env, said: &startOutput{out: env.stderr, lines: make(map[string]bool)},
		recorder: console.NewRecorder(&console.RecorderOptions{Bodies: true, Messages: true}),
	}
	d.logger = slog.New(slog.NewTextHandler(d.said, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: withoutTime}))
	folder, err := os.MkdirTemp("", "dovetail-dev")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	d.build = parseGoRun(o.command, folder)
	w, before, err := d.watch()
	if err != nil {
		return err
	}
	var configs []bridge.Config
	began := time.Now()
	config, err := d.next(ctx)
	first := buildOf(began, err)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		printError(env.stderr, fmt.Errorf("the server starts after the next change: %w", err))
	default:
		configs = append(configs, config)
	}
	if err := d.open(configs); err != nil {
		return err
	}
	d.console.ShowBuild(first)
	watching, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { d.follow(watching, w, before) })
	defer background.Wait()
	defer stop()
	return d.serve(ctx)
}

// open makes the server and its console.
func (d *devServer) open(configs []bridge.Config) (err error) {
	if d.bridge, err = bridge.New(&bridge.Options{
		Logger: d.logger, Name: func(_, name string) string { return name },
		OnConnect: func(context.Context, *bridge.Bridge, string, []mcp.Tool) { d.said.running() },
	}, configs...); err != nil {
		return err
	}
	options := &server.Options{Logger: d.logger}
	d.recorder.ObserveServer(options)
	d.server = server.New(mcp.Implementation{Name: "dovetail-dev", Version: version()}, options)
	if err := d.server.Mount(d.bridge, nil); err != nil {
		return err
	}
	d.console, err = console.New(d.server, d.bridge, &console.Options{
		Recorder: d.recorder, Logger: d.logger,
		Command: func(_, tool string, arguments json.RawMessage) string {
			return commandLine(slices.Concat([]string{"dovetail", "call", tool, string(arguments), "--"}, d.opts.command)...)
		},
	})
	return err
}

// serve serves clients and the console until ctx or the input ends.
func (d *devServer) serve(ctx context.Context) (err error) {
	var conn jsonrpc.Options
	if !d.opts.quiet {
		conn.Trace = showTraffic(d.env.stderr)
	}
	d.recorder.TraceClients(&conn)
	pages := http.NewServeMux()
	pages.Handle("/console/", d.console)
	if d.opts.http != "" {
		return streamable.Serve(ctx, d.opts.http, d.server, &streamable.ServeOptions{
			Options: streamable.Options{Logger: d.logger, Conn: conn}, Other: pages, OnShutdown: d.console.Close,
			OnListen: func(at net.Addr) {
				d.printLink(at)
				fmt.Fprintf(d.env.stderr, "serving  http://%s/mcp\n", at)
			},
		})
	}
	site, err := listen("console", d.opts.console)
	if err != nil {
		return err
	}
	site.serve(pages)
	d.printLink(site.listener.Addr())
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		site.stopAccepting()
		err = errors.Join(err, d.console.Close(), site.shutdown(ctx))
	}()
	return stdio.Serve(ctx, d.server, &stdio.ServeOptions{Logger: d.logger, Conn: conn})
}

func (d *devServer) printLink(at net.Addr) {
	fmt.Fprintf(d.env.stderr, "console  http://%s/console/#token=%s\n", at, d.console.Token())
}

// watch returns the watcher of the source and the state of the files.
func (d *devServer) watch() (*sourceWatcher, map[string]string, error) {
	folder := d.opts.watch
	if folder == "" && d.build != nil {
		folder = d.build.dir
	}
	folder = cmp.Or(folder, ".")
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return nil, nil, misuse("expected a folder with the source: %s is none", folder)
	}
	extensions := d.opts.extensions(d.build != nil)
	w := newSourceWatcher(folder, extensions)
	files := w.snapshot()
	switch len(files) {
	case 0:
		fmt.Fprintf(d.env.stderr, "dovetail: no file in %s ends with .%s: expected another -watch or -ext\n", peertext.Escape(folder), peertext.Escape(strings.Join(extensions, ", .")))
	case maxSources:
		fmt.Fprintf(d.env.stderr, "dovetail: only the first %d files in %s are watched: expected another -watch or -ext\n", maxSources, peertext.Escape(folder))
	}
	return w, files, nil
}

// extensions returns the extensions of source files.
func (o *devOptions) extensions(isGo bool) []string {
	switch {
	case o.ext != "":
		return strings.Split(o.ext, ",")
	case isGo:
		return []string{"go", "mod", "sum", "html", "tmpl", "css", "js", "sql"}
	}
	return []string{"go", "js", "mjs", "cjs", "ts", "py", "rb", "rs", "java", "kt", "cs", "php", "sh"}
}

// next builds the server if necessary, and returns its configuration for the bridge.
func (d *devServer) next(ctx context.Context) (bridge.Config, error) {
	command := d.opts.command
	opts := &stdio.CommandOptions{InheritEnv: true, Name: "server", Stderr: d.said, Logger: d.logger}
	d.recorder.TraceServers(&opts.Conn)
	if d.build != nil {
		opts.Dir = d.build.dir
		began := time.Now()
		built, err := d.build.run(ctx, d.env.stderr)
		if err != nil {
			return bridge.Config{}, err
		}
		fmt.Fprintf(d.env.stderr, "dovetail: built in %v\n", time.Since(began).Round(time.Millisecond))
		command = built
	}
	d.runs++
	d.said.running() // the lines of another build are new
	config := bridge.Config{Alias: "server", Dialer: &startDialer{stdio.Command(command[0], command[1:], opts), d.said}, Fingerprint: fmt.Sprint(d.runs)}
	d.recorder.ObserveUpstream(&config)
	return config, nil
}

// withoutTime removes the time of log records, so that equal ones are equal lines.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// A startDialer starts a server, and tells the output.
type startDialer struct {
	transport.Dialer
	said *startOutput
}

func (d *startDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	d.said.starting()
	return d.Dialer.Dial(ctx, handler)
}

// maxStartLines bounds the lines that a startOutput remembers.
const maxStartLines = 1000

// A startOutput writes each line once while a server starts: a bridge starts a server that fails again and again.
type startOutput struct {
	out io.Writer

	mu        sync.Mutex
	isRunning bool
	lines     map[string]bool // of the starts since the server ran
}

func (o *startOutput) starting() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isRunning = false
}

func (o *startOutput) running() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isRunning, o.lines = true, make(map[string]bool)
}

// Write writes a line unless it is a repeated one.
func (o *startOutput) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.isRunning && o.lines[string(line)] {
		return len(line), nil
	}
	if !o.isRunning && len(o.lines) < maxStartLines {
		o.lines[string(line)] = true
	}
	return o.out.Write(line)
}

// follow replaces the running server whenever the source changes, until ctx ends.
func (d *devServer) follow(ctx context.Context, w *sourceWatcher, before map[string]string) {
	for {
		after, changed, ok := w.wait(ctx, d.opts.interval, before)
		if !ok {
			return
		}
		before = after
		fmt.Fprintf(d.env.stderr, "dovetail: %s changed\n", peertext.Escape(changed))
		if file, err := filepath.Rel(w.folder, changed); err == nil {
			changed = file
		}
		d.console.ShowBuild(console.Build{State: console.Building, File: changed})
		build, err := d.replace(ctx)
		build.File = changed
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			printError(d.env.stderr, fmt.Errorf("the server was not replaced: %s", connectProblem(err, true)))
		default:
			fmt.Fprintln(d.env.stderr, "dovetail: the server was replaced")
		}
		d.console.ShowBuild(build)
	}
}

// replace builds the server, and replaces the running one.
func (d *devServer) replace(ctx context.Context) (console.Build, error) {
	began, tools := time.Now(), d.tools()
	config, err := d.next(ctx)
	if err == nil {
		err = d.server.Start(ctx) // UpdateAll needs a bridge that runs
	}
	if err == nil {
		err = d.bridge.UpdateAll(ctx, config)
	}
	build := buildOf(began, err)
	if err == nil {
		build.Added, build.Removed, build.Changed = differences(tools, d.tools())
	}
	return build, err
}

// tools returns the digests of the tools by their names.
func (d *devServer) tools() map[string]string {
	tools := make(map[string]string)
	for e := range d.bridge.Catalog().All(mcp.KindTool) {
		tools[e.Name] = e.Definition.Digest()
	}
	return tools
}

// differences returns the names of the tools that differ, in their order.
func differences(before, after map[string]string) (added, removed, changed []string) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if digest, ok := before[name]; !ok {
			added = append(added, name)
		} else if digest != after[name] {
			changed = append(changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			removed = append(removed, name)
		}
	}
	return added, removed, changed
}

// buildOf describes a build that has ended with an error, or nil.
func buildOf(began time.Time, err error) console.Build {
	build := console.Build{State: console.Built, Took: time.Since(began)}
	if err == nil {
		return build
	}
	build.State, build.Text = console.BuildFailed, connectProblem(err, true)
	if failed, ok := errors.AsType[*buildError](err); ok && failed.output != "" {
		build.Text = failed.output
	}
	return build
}

// showTraffic returns a trace that prints the beginning of each message.
func showTraffic(w io.Writer) func(conn string, sent bool, frame []byte) {
	return func(conn string, sent bool, frame []byte) {
		direction := "→"
		if sent {
			direction = "←"
		}
		fmt.Fprintln(w, "client", conn[:4], direction, peertext.Cut(peertext.EscapeJSON(frame), maxText))
	}
}
