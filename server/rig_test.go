package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type jsonRaw = json.RawMessage

func newServer(opts *server.Options) *server.Server {
	return server.New(mcp.Implementation{Name: "test", Version: "1"}, opts)
}

// options are the guards, middleware, scopes and metadata of an entry, mount or server.
type options struct {
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	Scopes         []string
	Metadata       map[string]any
}

// options returns the options of a server.
func (a options) options() *server.Options {
	return &server.Options{Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata, Logger: discardLogger()}
}

// withGuard returns options with one guard.
func withGuard(guard mcp.Guard) options { return options{Guards: []mcp.Guard{guard}} }

// denyGuard is a guard whose Check refuses everything.
func denyGuard(name string) mcp.Guard {
	return mcp.Guard{Name: name, Check: func(context.Context, *mcp.Call) error { return errors.New("the secret reason") }}
}

// discardLogger drops the messages that a test provokes.
func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// connect opens a session with a server in this process.
func connect(t testing.TB, s *server.Server, era client.Era) *client.Session {
	t.Helper()
	return connectWith(t, s, &client.Options{Era: era})
}

func connectWith(t testing.TB, s *server.Server, opts *client.Options) *client.Session {
	t.Helper()
	return connectBy(t, transporttests.Dialer(t, s), opts)
}

// connectInMemory is connectWith for tests in virtual time.
func connectInMemory(t testing.TB, s *server.Server, opts *client.Options) *client.Session {
	t.Helper()
	return connectBy(t, transport.Pipe(s), opts)
}

func connectBy(t testing.TB, dialer transport.Dialer, opts *client.Options) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), dialer, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// call calls a tool with arguments as JSON.
func call(t testing.TB, session *client.Session, tool, arguments string) *mcp.CallToolResult {
	t.Helper()
	result, err := session.CallTool(t.Context(), tool, json.RawMessage(arguments), nil)
	if err != nil {
		t.Fatalf("%s(%s): %v", tool, arguments, err)
	}
	return result
}

// textOf returns the text of a result's content.
func textOf(result *mcp.CallToolResult) string {
	var texts []string
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// wantCode checks the code of a protocol error.
func wantCode(t testing.TB, err error, code jsonrpc.Code) {
	t.Helper()
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("the error is %v (%T), want code %d", err, err, code)
	}
}

// wantNotExecuted checks that the error says that a call can be sent to another replica.
func wantNotExecuted(t testing.TB, err error) {
	t.Helper()
	if e, ok := errors.AsType[*jsonrpc.CallError](err); !ok || e.Delivery != jsonrpc.Rejected {
		t.Errorf("the error is %v (%T), which does not say that the call was not executed", err, err)
	}
}

// message returns the message of a protocol error.
func message(err error) string {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Message
	}
	return ""
}

// raw makes any call and returns the result's JSON.
func raw(t testing.TB, session *client.Session, method, params string) (string, error) {
	t.Helper()
	result, err := session.Call(t.Context(), method, json.RawMessage(params), nil)
	return string(result), err
}

func TestMain(m *testing.M) { transporttests.Main(m) }
