// Sandbox is an MCP server with a workspace for an agent: files, commands, git, a browser,
// and servers that are added at run time.
//
//	go run ./bridge/cmd/sandbox -root DIR
//	go run ./bridge/cmd/sandbox -root DIR -addr 127.0.0.1:6060 [-token T | -open] [-control-token T]
//
// It serves standard input and output, or HTTP at /mcp with additional control routes. Tools
// access only files of the directory. All processes of a command end with it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/control"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// grace bounds the time for running calls at shutdown.
const grace = 5 * time.Second

func main() {
	guard := process.Main()
	log.SetFlags(0)
	codex := control.Sidecar{URL: "http://127.0.0.1:1324", Command: []string{"sse-http-server", "--addr", "127.0.0.1:1324"}}
	o := options{sidecars: map[string]control.Sidecar{"codex": codex}}
	flag.StringVar(&o.root, "root", os.Getenv("WORKSPACE_DIR"), "the `directory` to work in")
	flag.StringVar(&o.address, "addr", "", "the `address` to serve HTTP at, such as 127.0.0.1:6060; port 0 takes a free one")
	flag.Func("host", "a host `name` under which callers reach the sandbox over HTTP, such as a container's or a port-forward's; may be repeated. Loopback names and the address itself are always accepted", o.addHost)
	flag.StringVar(&o.customMCP, "custom-mcp", "", "a `file` with mcpServers, to be there from the start")
	flag.StringVar(&o.token, "token", "", "what callers over HTTP must show; by default it is random")
	flag.StringVar(&o.controlToken, "control-token", "", "what callers of the control routes must show; by default it is random")
	flag.BoolVar(&o.open, "open", false, "programs on this machine need no token for /mcp")
	flag.BoolVar(&o.deferred, "defer", false, "no tools before POST /credential and /tool-server-url")
	flag.StringVar(&o.toolHosts, "tool-hosts", "", "`hosts` that a tool server may be at beside this one, with commas")
	flag.StringVar(&o.policy, "policy", "", "a `file` with the policy for calls; what it asks about, the caller's person decides")
	flag.StringVar(&o.pass, "pass", "", "variables that commands get beside PATH, HOME and their like, with `commas`")
	flag.BoolVar(&o.raw, "raw", false, "read_file returns unchanged texts, without line numbers, unless a call says otherwise")
	flag.StringVar(&o.portURL, "port-url", "", "the public `URL` of registered ports, such as https://{port}-host.example; by default they are forwarded on this machine")
	flag.Func("ports", "`ports` that register_port forwards whatever listens there, with commas; others only if a command listens", o.addPorts)
	flag.Func("push", "the `URL` of a repository that git_push may push to, with git's own credentials; may be repeated. Without one there is no git_push", func(url string) error {
		o.push = append(o.push, url)
		return nil
	})
	flag.BoolVar(&o.npm, "npm", false, "npm_install, npm_run and npm_test, which reach the network and run the scripts of package.json")
	flag.StringVar(&o.browser, "browser", "npx -y @playwright/mcp@"+playwrightVersion, "the `command` of the Playwright MCP server")
	flag.StringVar(&o.chromium, "chromium", "chromium", "the browser's `program`")
	flag.Func("sidecar", "a program that POST /sidecars/NAME starts: `NAME=URL COMMAND ARGUMENTS`", o.addSidecar)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	said := peertext.Screen(os.Stderr) // errors and log records contain text of servers and callers
	log.SetOutput(said)
	if err := run(ctx, guard, o, said); err != nil {
		log.Fatal(err)
	}
}

// options are the flags of the program.
type options struct {
	root, address, customMCP string
	hosts                    []string
	token, controlToken      string
	open, deferred           bool
	toolHosts                string
	policy                   string
	pass                     string
	browser, chromium        string
	raw                      bool
	portURL                  string
	ports                    []int
	push                     []string
	npm                      bool
	sidecars                 map[string]control.Sidecar
}

// addHost adds a host name.
func (o *options) addHost(name string) error {
	o.hosts = append(o.hosts, name)
	_, err := httpguard.NewGuard(o.hosts, nil)
	return err
}

// addPorts reads a list of ports.
func (o *options) addPorts(text string) error {
	for field := range strings.SplitSeq(text, ",") {
		port, err := strconv.ParseUint(field, 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("expected ports with commas, found %.20q", field)
		}
		o.ports = append(o.ports, int(port))
	}
	return nil
}

// addSidecar reads NAME=URL COMMAND ARGUMENTS….
func (o *options) addSidecar(text string) error {
	name, rest, _ := strings.Cut(text, "=")
	fields := strings.Fields(rest)
	if name == "" || len(fields) < 2 {
		return errors.New("expected NAME=URL COMMAND ARGUMENTS…")
	}
	o.sidecars[name] = control.Sidecar{URL: fields[0], Command: fields[1:]}
	return nil
}

func run(ctx context.Context, guard *process.Guard, o options, said io.Writer) error {
	s, err := newSandbox(ctx, guard, o, slog.New(slog.NewTextHandler(said, nil)))
	if err != nil {
		return err
	}
	if o.address == "" {
		err = stdio.Serve(ctx, s.server, nil)
	} else {
		err = s.serveHTTP(ctx, said)
	}
	return errors.Join(err, s.close(ctx))
}

// newAuthenticator returns an authenticator for a token. The default token is random.
func (s *sandbox) newAuthenticator(token, principal string, open bool) (*gateway.Authenticator, error) {
	opts := &gateway.AuthenticatorOptions{Open: open, Hosts: s.hosts, Logger: s.logger}
	if token != "" {
		opts.Tokens = map[string]string{token: principal}
	}
	return gateway.NewAuthenticator(opts)
}

// serveHTTP serves MCP at /mcp, the tools below /mcp/tools for programs without MCP, and the
// control routes, until ctx ends, and prints the address.
// Agents and the control routes have different tokens, because no policy applies to the
// control routes.
func (s *sandbox) serveHTTP(ctx context.Context, said io.Writer) error {
	if s.token != "" && s.token == s.controlToken {
		return errors.New("-control-token: expected another than -token")
	}
	agents, err := s.newAuthenticator(s.token, "agent", s.open)
	if err != nil {
		return err
	}
	operators, err := s.newAuthenticator(s.controlToken, "operator", false)
	if err != nil {
		return err
	}
	routes, err := control.New(&control.Options{
		Shell: s.shell, Servers: s.added, Sidecars: s.sidecars, ToolHosts: strings.Split(s.toolHosts, ","), Authenticator: operators,
		OnToolServer: func(context.Context, string) error { return s.register() },
	})
	if err != nil {
		return err
	}
	defer routes.Close()
	tools := gateway.New(s.server, &gateway.Options{Authenticator: agents, Logger: s.logger})
	mux := http.NewServeMux()
	mux.Handle("/", routes)
	for _, path := range []string{"/mcp/tools", "/mcp/tools/"} {
		mux.Handle(path, http.StripPrefix("/mcp", tools.REST(nil)))
	}
	err = streamable.Serve(ctx, s.address, s.server, &streamable.ServeOptions{
		Options: streamable.Options{Hosts: s.hosts, Logger: s.logger},
		Wrap:    agents.Handler,
		Other:   mux,
		OnListen: func(at net.Addr) {
			fmt.Fprintf(said, "serving http://%s/mcp\n", at)
			if token := agents.Token(); token != "" {
				fmt.Fprintf(said, "the token is %s\n", token)
			}
			if token := operators.Token(); token != "" {
				fmt.Fprintf(said, "the control token is %s\n", token)
			}
		},
	})
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return errors.Join(err, tools.Shutdown(stopping))
}

// own is the server name of the sandbox in rules. Its annotations are trusted.
const own = "sandbox"

// ownTools offers the tools of the sandbox as tools of the server own.
type ownTools struct{ server.Provider }

func (p ownTools) Catalog() *server.Catalog {
	tools := p.Provider.Catalog()
	return tools.Memo(ownTools{}, func() any {
		return tools.Map(func(e *server.Entry) *server.Entry {
			named := *e
			named.Origin = mcp.Origin{Server: own, Name: cmp.Or(e.Origin.Name, e.Name), Trusted: true}
			return &named
		})
	}).(*server.Catalog)
}

// addPolicy enforces the policy of a file for all tools. The user of the calling client
// decides about calls for which the policy asks.
func (s *sandbox) addPolicy(opts *server.Options) error {
	if s.policy == "" {
		return nil
	}
	data, err := os.ReadFile(s.policy)
	if err != nil {
		return err
	}
	parsed, err := policy.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", s.policy, err)
	}
	compiled, err := policy.Compile(parsed)
	if err != nil {
		return fmt.Errorf("%s: %w", s.policy, err)
	}
	guard := approval.Guard(compiled, approval.Elicitation(), &approval.Options{Logger: s.logger})
	opts.Guards = []mcp.Guard{guard}
	return nil
}
