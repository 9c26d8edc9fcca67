//go:build unix

package stdio_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/faults"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

// What a child of the tests finds in its environment.
const (
	aliveVariable = "STDIO_TEST_ALIVE" // a socket to hold open as long as it lives
	heirVariable  = "STDIO_TEST_HEIR"  // the socket for the child of a parent
)

// child is the main function of a process that the tests start.
func child(kind string) int {
	if address := os.Getenv(aliveVariable); address != "" {
		alive, err := net.Dial("unix", address)
		if err != nil {
			return complain(err)
		}
		defer alive.Close()
	}
	switch kind {
	case "kit":
		return serve(context.Background(), transporttest.Server())
	case "greeter":
		return serve(context.Background(), greeter{})
	case "stray":
		return serve(context.Background(), binder(strayPrinter{}))
	case "quits":
		ctx, cancel := context.WithCancel(context.Background())
		return serve(ctx, binder(cancelingServer{cancel}))
	case "README":
		return run(func(s *server.Server) error { return stdio.Run(s, nil) })
	case "README over HTTP":
		return run(func(s *server.Server) error {
			return streamable.Run("127.0.0.1:0", s, &streamable.ServeOptions{OnListen: func(address net.Addr) { fmt.Println("http://" + address.String() + "/mcp") }})
		})
	case "parent":
		return parent()
	}
	return faults.RunChild(faults.Mode(kind))
}

// sleep is longer than every test and ends processes of failed ones.
func sleep() { <-time.After(time.Minute) }

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "child:", err)
	return 99
}

func serve(ctx context.Context, server transport.Binder) int {
	if err := stdio.Serve(ctx, server, nil); err != nil {
		return complain(err)
	}
	return 0
}

// run is the main function of a server with a dependency, which reports how often it was stopped.
func run(serve func(*server.Server) error) int {
	stopped := 0
	s := server.New(mcp.Implementation{Name: "calc", Version: "1"}, &server.Options{Dependencies: []server.Dependency{
		server.Provide(func(context.Context) (string, func(context.Context) error, error) {
			return "database", func(context.Context) error { stopped++; return nil }, nil
		}),
	}})
	server.AddTool(s, server.Tool{Name: "name"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return server.Value[string](r), nil
	})
	if err := serve(s); err != nil {
		return complain(err)
	}
	fmt.Fprintln(os.Stderr, "stopped:", stopped)
	return 0
}

// parent dials a child, reports it and waits to be killed.
func parent() int {
	dialer := stdio.Command(os.Args[0], nil, &stdio.CommandOptions{
		Env: []string{childVariable + "=deaf", aliveVariable + "=" + os.Getenv(heirVariable)},
	})
	if _, err := dialer.Dial(context.Background(), silent{}); err != nil {
		return complain(err)
	}
	sleep()
	return 0
}

// binder binds one handler to all links.
func binder(h jsonrpc.Handler) transport.Binder { return handlerBinder{h} }

type handlerBinder struct{ handler jsonrpc.Handler }

func (b handlerBinder) Bind(transport.Link) jsonrpc.Handler { return b.handler }

// silent refuses calls and drops notifications.
type silent struct{}

func (silent) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "nothing is answered here"}
}

func (silent) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

// strayPrinter prints, and has a child print, before it answers.
type strayPrinter struct{ silent }

func (strayPrinter) Handle(ctx context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	fmt.Println("stray print")
	cmd := exec.CommandContext(ctx, "echo", "stray child")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		return err
	}
	return reply.Write(jsonrpc.Raw(req.Params))
}

// cancelingServer ends the context of Serve when it is called.
type cancelingServer struct{ cancel context.CancelFunc }

func (cancelingServer) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "it takes notifications"}
}

func (q cancelingServer) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) { q.cancel() }
