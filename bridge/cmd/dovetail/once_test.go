package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/sharedfile"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// once is the value of asServer that makes the test binary a server of the legacy era that can run once at a time.
const once = "once"

// onceFile names the file that such a server locks. Each start adds a line to it.
const onceFile = "ONCE_FILE"

func serveOnce() error {
	file, err := os.OpenFile(os.Getenv(onceFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.WriteString("started\n"); err != nil {
		return err
	}
	if err := sharedfile.TryLock(file); err != nil {
		return err
	}
	return stdio.Serve(context.Background(), legacyOnly{newServer()}, nil)
}

// legacyOnly makes a server refuse the modern era.
type legacyOnly struct{ transport.Binder }

func (l legacyOnly) Bind(link transport.Link) jsonrpc.Handler {
	return legacyHandler{l.Binder.Bind(link)}
}

type legacyHandler struct{ jsonrpc.Handler }

func (h legacyHandler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == mcp.MethodDiscover {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "method not found"}
	}
	return h.Handler.Handle(ctx, from, req, reply)
}

// A server that can run once is started once, however it is used, and whatever its clients can be asked.
func TestServerThatRunsOnce(t *testing.T) {
	answers := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"name":"Ada"}`)}, nil
	}
	clients := []client.Options{
		{}, {Elicit: answers}, {Roots: func(context.Context) ([]mcp.Root, error) { return nil, nil }},
		{Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) { return nil, nil }},
	}
	// use calls tools as a client.
	use := func(t *testing.T, session *client.Session, prefix string, opts *client.Options) {
		t.Helper()
		result, err := session.CallTool(t.Context(), prefix+"greet", greeting{"Ada"}, nil)
		if err != nil || result.Text() != "<hello> Ada" {
			t.Errorf("greet gives %v, %v", result, err)
		}
		result, err = session.CallTool(t.Context(), prefix+"ask", nil, nil)
		if answered := err == nil && !result.IsError && result.Text() == "Ada"; answered != (opts.Elicit != nil) {
			t.Errorf("ask gives %v, %v", result, err)
		}
	}
	for name, test := range map[string]func(t *testing.T, config string, era client.Era){
		"serve": func(t *testing.T, config string, era client.Era) {
			opts := clients[1]
			opts.Era = era
			session, err := client.Connect(t.Context(), onStandardIO("serve", "-config", config), &opts)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			use(t, session, "once__", &opts)
		},
		"serve -http": func(t *testing.T, config string, era client.Era) {
			p := &program{folder: t.TempDir(), said: &output{}}
			p.run(t, strings.NewReader(""), []string{"serve", "-config", config, "-http", "127.0.0.1:0"})
			for _, opts := range clients {
				opts.Era = era
				use(t, p.connect(t, &opts), "once__", &opts)
			}
		},
		"relay": func(t *testing.T, config string, _ client.Era) {
			opts := clients[1]
			session, err := client.Connect(t.Context(), onStandardIO("relay", "-config", config, "once"), &opts)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			use(t, session, "", &opts)
		},
		"call -config": func(t *testing.T, config string, _ client.Era) {
			out, said, err := inspectAll(t, config, `call once__greet {"name":"Ada"}`)
			if err != nil || !strings.Contains(out, "<hello> Ada") {
				t.Errorf("the call prints %s%s, %v", out, said, err)
			}
		},
		"session": func(t *testing.T, config string, _ client.Era) {
			var shown strings.Builder
			typed := "tools\ncall once__greet {\"name\":\"Ada\"}\ncall once__ask\nGrace\ny\n"
			err := run(t.Context(), []string{"session", "-config", config}, strings.NewReader(typed), &shown, &shown)
			if err != nil || !strings.Contains(shown.String(), "<hello> Ada") || !strings.Contains(shown.String(), `"text": "Grace"`) {
				t.Errorf("the session prints %s, %v", shown.String(), err)
			}
		},
	} {
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			t.Run(fmt.Sprint(name, ", ", era), func(t *testing.T) {
				dir := t.TempDir()
				config, file := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "lock")
				settings := encoded(t, map[string]any{"mcpServers": map[string]any{"once": map[string]any{
					"command": os.Args[0], "env": map[string]string{asServer: once, onceFile: file, "GORACE": "atexit_sleep_ms=0"},
				}}})
				if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
					t.Fatal(err)
				}
				test(t, config, era)
				if starts, err := os.ReadFile(file); string(starts) != "started\n" {
					t.Errorf("the server was started %d times, %v", strings.Count(string(starts), "\n"), err)
				}
			})
		}
	}
}

// onStandardIO runs dovetail with a command line.
func onStandardIO(line ...string) transport.Dialer {
	return stdio.Command(os.Args[0], line, &stdio.CommandOptions{Env: []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}})
}
