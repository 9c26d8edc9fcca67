package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
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
standard error of the server.`,
	run: runDev,
}

type devOptions struct {
	watch, ext, http string
	quiet            bool
	interval         time.Duration
	command          []string
}

func runDev(ctx context.Context, env *environment, sub *command, line []string) error {
	o := &devOptions{}
	flags := newFlags(sub, env.stderr)
	flags.StringVar(&o.watch, "watch", "", "the `folder` with the source (default the current folder, or the folder of -C of go run)")
	flags.StringVar(&o.ext, "ext", "", "the `extensions` of source files, separated by commas (default go,mod,sum,html,tmpl,css,js,sql for go run, and otherwise the extensions of widespread languages)")
	flags.StringVar(&o.http, "http", "", "serve HTTP at this loopback `address`, without a token, at /mcp, in place of standard input and output")
	flags.BoolVar(&o.quiet, "quiet", false, "do not show the messages")
	flags.DurationVar(&o.interval, "interval", 300*time.Millisecond, "how often the files are checked")
	args, command, err := flags.parse(line)
	if err != nil {
		return err
	}
	if len(args) > 0 || command == nil || o.interval <= 0 {
		return flags.usage()
	}
	if o.http != "" {
		if o.http, err = loopbackAddress("http", o.http); err != nil {
			return err
		}
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
}

func dev(ctx context.Context, o *devOptions, env *environment) error {
	d := &devServer{opts: o, env: env, said: &startOutput{out: env.stderr, lines: make(map[string]bool)}}
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
	config, err := d.next(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		printError(env.stderr, fmt.Errorf("the server starts after the next change: %w", err))
	default:
		configs = append(configs, config)
	}
	opts := &bridge.Options{
		Logger: d.logger, Name: func(_, name string) string { return name },
		OnConnect: func(context.Context, *bridge.Bridge, string, []mcp.Tool) { d.said.running() },
	}
	if d.bridge, err = bridge.New(opts, configs...); err != nil {
		return err
	}
	d.server = server.New(mcp.Implementation{Name: "dovetail-dev", Version: version()}, &server.Options{Logger: d.logger})
	if err := d.server.Mount(d.bridge, nil); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { d.follow(watching, w, before) })
	defer background.Wait()
	defer stop()
	var conn jsonrpc.Options
	if !o.quiet {
		conn.Trace = showTraffic(env.stderr)
	}
	if o.http == "" {
		return stdio.Serve(ctx, d.server, &stdio.ServeOptions{Logger: d.logger, Conn: conn})
	}
	return streamable.Serve(ctx, o.http, d.server, &streamable.ServeOptions{
		Options:  streamable.Options{Logger: d.logger, Conn: conn},
		OnListen: func(at net.Addr) { fmt.Fprintf(env.stderr, "serving  http://%s/mcp\n", at) },
	})
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
	return bridge.Config{Alias: "server", Dialer: &startDialer{stdio.Command(command[0], command[1:], opts), d.said}, Fingerprint: fmt.Sprint(d.runs)}, nil
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
		config, err := d.next(ctx)
		if err == nil {
			err = d.server.Start(ctx) // UpdateAll needs a bridge that runs
		}
		if err == nil {
			err = d.bridge.UpdateAll(ctx, config)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			printError(d.env.stderr, fmt.Errorf("the server was not replaced: %s", connectProblem(err, true)))
		default:
			fmt.Fprintln(d.env.stderr, "dovetail: the server was replaced")
		}
	}
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

// A goBuild builds the program that go run would run.
type goBuild struct {
	program               string // go
	flags, packages, args []string
	dir                   string // the value of -C, in which the program runs, or ""
	folder                string // of the built programs
	builds                int
}

// valueFlags are the build flags with a value in the next word.
var valueFlags = []string{"C", "asmflags", "buildmode", "compiler", "covermode", "coverpkg", "exec", "gccgoflags", "gcflags", "installsuffix", "ldflags", "mod", "modfile", "o", "overlay", "p", "pgo", "pkgdir", "tags", "toolexec"}

// parseGoRun returns the build for a command that is go run, and nil for others. It also returns nil if go build has no
// equivalent: with -exec, and for a package with a version.
func parseGoRun(command []string, folder string) *goBuild {
	if len(command) < 3 || filepath.Base(command[0]) != "go" || command[1] != "run" {
		return nil
	}
	b := &goBuild{program: command[0], folder: folder}
	rest := command[2:]
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		name, value, hasValue := strings.Cut(strings.TrimLeft(rest[0], "-"), "=")
		count := 1
		if !hasValue && slices.Contains(valueFlags, name) {
			count = min(2, len(rest))
			value = rest[count-1]
		}
		switch name {
		case "exec":
			return nil
		case "C":
			b.dir = value
		}
		b.flags, rest = append(b.flags, rest[:count]...), rest[count:]
	}
	for len(rest) > 0 && (len(b.packages) == 0 || strings.HasSuffix(rest[0], ".go") && strings.HasSuffix(b.packages[0], ".go")) {
		b.packages, rest = append(b.packages, rest[0]), rest[1:]
	}
	if len(b.packages) == 0 || strings.Contains(b.packages[0], "@") {
		return nil
	}
	b.args = rest
	return b
}

// run builds the program, and returns the command that runs it. The output of the build goes to
// stderr.
func (b *goBuild) run(ctx context.Context, stderr io.Writer) ([]string, error) {
	b.builds++
	program := filepath.Join(b.folder, fmt.Sprintf("server%d.exe", b.builds)) // another name, since the old program runs
	build := exec.CommandContext(ctx, b.program, slices.Concat([]string{"build"}, b.flags, []string{"-o", program}, b.packages)...)
	build.Stdout, build.Stderr = stderr, stderr
	if err := build.Run(); err != nil {
		return nil, errors.Join(errors.New("the build failed"), ctx.Err())
	}
	if b.builds > 2 {
		_ = os.Remove(filepath.Join(b.folder, fmt.Sprintf("server%d.exe", b.builds-2))) // it may run still
	}
	return append([]string{program}, b.args...), nil
}
