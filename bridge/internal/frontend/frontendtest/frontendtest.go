package frontendtest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Tokens and their principals.
const (
	TokenOne = "a-token-of-sandbox-one" // of the principal "one"
	TokenTwo = "a-token-of-sandbox-two" // of the principal "two"
)

// Tokens returns the tokens of the principals "one" and "two", and others of the principal "".
func Tokens(others ...string) map[string]string {
	tokens := map[string]string{TokenOne: "one", TokenTwo: "two"}
	for _, token := range others {
		tokens[token] = ""
	}
	return tokens
}

// Quiet returns a logger that discards everything.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Authenticator returns an authenticator with these options.
func Authenticator(t testing.TB, opts gateway.AuthenticatorOptions) *gateway.Authenticator {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = Quiet()
	}
	a, err := gateway.NewAuthenticator(&opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Compile compiles the JSON of a policy.
func Compile(t testing.TB, text string) *policy.Compiled {
	t.Helper()
	parsed, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := policy.Compile(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// A Log stores log records. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends text.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// String returns the text of all records.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logger returns a logger of all levels that writes JSON to the log.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Records returns the records with a message.
func (l *Log) Records(t testing.TB, message string) (records []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record["msg"] == message {
			records = append(records, record)
		}
	}
	return records
}

// OpenSchema allows every object.
var OpenSchema = json.RawMessage(`{"type":"object"}`)

// An Upstream is a server whose tools return fixed results, and which counts their calls.
type Upstream struct {
	*server.Server

	Calls   atomic.Int32
	Entered chan struct{} // receives a value when a call of slow begins
	Left    chan error    // receives the cause when a call of slow is canceled
}

// NewUpstream returns a server with the tool slow, which runs until it is canceled.
func NewUpstream() *Upstream {
	u := &Upstream{
		Server:  server.New(mcp.Implementation{Name: "upstream", Version: "1"}, &server.Options{RegistrationOrder: true, Logger: Quiet()}),
		Entered: make(chan struct{}, 10), Left: make(chan error, 10),
	}
	u.Add("read", "Reads a file.", `{"content":[{"type":"text","text":"one"},{"type":"text","text":"two <\u00e9>"}]}`)
	u.Add("stat", "", `{"content":[{"type":"text","text":"{\"size\": 1}"}],"structuredContent":{ "size" : 12345678901234567890 }}`)
	u.Add("nothing", "", `{"content":[]}`)
	u.Add("fail", "", `{"content":[{"type":"text","text":"no such file"}],"isError":true}`)
	u.AddFunc("echo", server.Tool{}, func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
	})
	u.AddFunc("slow", server.Tool{}, func(ctx context.Context, _ *server.Request, _ json.RawMessage) (mcp.Result, error) {
		u.Entered <- struct{}{}
		<-ctx.Done()
		u.Left <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	return u
}

// Add adds a tool that always returns the same result.
func (u *Upstream) Add(name, description, result string) {
	u.AddFunc(name, server.Tool{Description: description}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return mcp.Raw(result), nil
	})
}

// AddFunc adds a tool with a function.
func (u *Upstream) AddFunc(name string, tool server.Tool, fn func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error)) {
	tool.Name = name
	if tool.InputSchema == nil {
		tool.InputSchema = OpenSchema
	}
	server.AddRawTool(u.Server, tool, func(ctx context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		u.Calls.Add(1)
		return fn(ctx, r, arguments)
	})
}

// Bridge returns a bridge. It runs as long as the server on which it is mounted.
func Bridge(t testing.TB, configs ...bridge.Config) *bridge.Bridge {
	t.Helper()
	b, err := bridge.New(&bridge.Options{Logger: Quiet()}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// To returns the configuration of an upstream server.
func To(alias string, s transport.Binder) bridge.Config {
	return bridge.Config{Alias: alias, Dialer: transport.Pipe(s)}
}

// Operator returns a server with mounted providers, which runs until the test ends.
func Operator(t testing.TB, opts server.Options, providers ...server.Provider) *server.Server {
	t.Helper()
	opts.Logger = Quiet()
	s := server.New(mcp.Implementation{Name: "operator", Version: "1"}, &opts)
	for _, p := range providers {
		if err := s.Mount(p, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}
