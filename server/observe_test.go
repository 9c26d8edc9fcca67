package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A notebook has the notifications that a middleware has observed.
type notebook struct {
	mu    sync.Mutex
	lines []string
}

// observe is a middleware.
func (n *notebook) observe(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		call.Observe(func(method string, params json.RawMessage) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.lines = append(n.lines, method+string(params))
		})
		return next(ctx, call)
	}
}

func TestMiddlewareObservesNotificationsOfCalls(t *testing.T) {
	work := func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		_ = r.Progress(ctx, 1, 2, "")
		r.Logger("").Info("halfway")
		var parallel sync.WaitGroup
		parallel.Go(func() { _ = r.Progress(ctx, 2, 2, "") })
		parallel.Wait()
		return "done", nil
	}
	for name, opts := range map[string]client.Options{
		"legacy": {Era: client.Legacy},
		"modern": {Era: client.Modern},
		"task":   *taskOptions(),
	} {
		for _, mounted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, mounted %t", name, mounted), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					outer, inner := new(notebook), new(notebook)
					s := server.New(mcp.Implementation{Name: "outer"}, &server.Options{
						Middleware: []mcp.Middleware{outer.observe}, CallMiddleware: []mcp.Middleware{inner.observe},
					})
					tool := server.Tool{Name: "work"}
					if name == "task" {
						tool.Task = server.TaskRequired
					}
					to, called := s, "work"
					if mounted {
						to, called = server.New(mcp.Implementation{Name: "inner"}, nil), "in_work"
						if err := s.Mount(to.Provider(), &server.MountOptions{Prefix: "in_"}); err != nil {
							t.Fatal(err)
						}
					}
					server.AddTool(to, tool, work)
					if name == "task" {
						opts.Capabilities = nil // the client waits for the task
					}
					opts.OnLog = func(context.Context, *mcp.LoggingMessageParams) {}
					session, err := client.Connect(t.Context(), transport.Pipe(s), &opts)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := session.CallTool(t.Context(), called, nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					session.Close()
					ended, cancel := context.WithCancel(t.Context())
					cancel()
					_ = s.Shutdown(ended)
					for position, book := range map[string]*notebook{"Middleware": outer, "CallMiddleware": inner} {
						all := strings.Join(book.lines, "\n")
						for _, want := range []string{`"progress":1`, `"progress":2`, "halfway"} {
							if strings.Count(all, want) != 1 {
								t.Errorf("%s has observed\n%s\nwant %s once", position, all, want)
							}
						}
					}
				})
			})
		}
	}
}
