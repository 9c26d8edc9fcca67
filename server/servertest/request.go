package servertest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// RequestOptions configures [Request]. The zero value is valid.
type RequestOptions struct {
	// Server has the dependencies of the function, for [server.Value]. Request starts it, and it is shut down when
	// the test ends. Default: a function without dependencies.
	Server *server.Server
	// Caller describes the caller. Default: a caller of the newest version, without a principal, that wants all log
	// messages.
	Caller *mcp.Caller
	// Target is the tool or prompt that is called, URI the resource that is read, and Arguments are the arguments, a
	// JSON object. They are for functions and middleware that read them from the call: see [mcp.Call.Target],
	// [mcp.Call.URI] and [mcp.Call.Member]. Default: a tool without a name and arguments.
	Target    *mcp.Target
	URI       string
	Arguments json.RawMessage
	// Meta is the _meta of the request. Default: a request for progress.
	Meta mcp.Meta
	// Answers are the answers to questions, as in [Options]. A question gets its answer immediately, so a function
	// runs once. A question without an answer fails the test.
	Answers map[string]any
	// Progress is called for each progress notification, and OnLog for each log message. Default: they are dropped.
	Progress func(*mcp.ProgressParams)
	OnLog    func(*mcp.LoggingMessageParams)
}

// Request returns a request for calling the function of a tool, resource or prompt directly, without a server and a
// client. Its Call is for calling middleware. Neither schemas nor guards have effect, so most tests use [Connect] instead. The request is valid until the test ends. opts may be
// nil.
func Request(tb testing.TB, opts *RequestOptions) *server.Request {
	tb.Helper()
	c := &caller{connection: newConnection(tb, nil, nil)}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Caller == nil {
		c.opts.Caller = &mcp.Caller{Version: mcp.Versions()[0], LogLevel: mcp.LevelDebug}
	}
	if c.opts.Meta == nil {
		c.opts.Meta = mcp.Meta(`{"progressToken":1}`)
	}
	request, err := c.opts.request()
	if err != nil {
		tb.Fatalf("servertest: Meta or Arguments: %v", err)
	}
	tb.Cleanup(c.end)
	if s := c.opts.Server; s != nil {
		tb.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				tb.Errorf("servertest: shut down the server: %v", err)
			}
		})
		if err := s.Start(tb.Context()); err != nil {
			tb.Fatalf("servertest: start the server: %v", err)
		}
	}
	call := mcp.NewCall(request, c.opts.Caller, c)
	if c.opts.Target != nil || c.opts.URI != "" {
		call.Resolve(c.opts.Target, c.opts.URI, nil)
	}
	return server.NewRequest(tb.Context(), c.opts.Server, &call)
}

// request returns the request with the parameters that the options describe.
func (o *RequestOptions) request() (*jsonrpc.Request, error) {
	params := struct {
		Name      string          `json:"name,omitempty"`
		URI       string          `json:"uri,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Meta      json.RawMessage `json:"_meta"`
	}{URI: o.URI, Arguments: o.Arguments, Meta: json.RawMessage(o.Meta)}
	method := mcp.MethodToolsCall
	switch {
	case o.URI != "":
		method = mcp.MethodResourcesRead
	case o.Target != nil:
		params.Name = o.Target.Name
		if o.Target.Kind == mcp.KindPrompt {
			method = mcp.MethodPromptsGet
		}
	}
	data, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return jsonrpc.NewRequest(jsonrpc.IntID(1), method, data)
}

// A caller is the [mcp.Responder] of a call that no client has made.
type caller struct {
	*connection // of a client that answers questions
	opts        RequestOptions

	mu     sync.Mutex
	stored map[string]json.RawMessage
	done   []func()
}

// Notify passes a notification to the test.
func (c *caller) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	encoded, err := params.AppendJSON(nil)
	if err != nil {
		return err
	}
	switch {
	case method == mcp.NotificationProgress && c.opts.Progress != nil:
		progress := new(mcp.ProgressParams)
		if err = progress.UnmarshalJSON(encoded); err == nil {
			c.opts.Progress(progress)
		}
	case method == mcp.NotificationMessage && c.opts.OnLog != nil:
		message := new(mcp.LoggingMessageParams)
		if err = message.UnmarshalJSON(encoded); err == nil {
			c.opts.OnLog(message)
		}
	}
	return err
}

// Input returns the answer of the test to a question.
func (c *caller) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	switch question.Method {
	case mcp.MethodElicit:
		params := new(mcp.ElicitParams)
		if err := params.UnmarshalJSON(question.Params); err != nil {
			return nil, err
		}
		if answer, ok := c.opts.Answers[params.Message]; ok {
			result, err := c.elicited(params, answer)
			if err != nil {
				return nil, err
			}
			return result.AppendJSON(nil)
		}
		key = params.Message
	case mcp.MethodCreateMessage:
		params := new(mcp.CreateMessageParams)
		if err := params.UnmarshalJSON(question.Params); err != nil {
			return nil, err
		}
		if key = lastText(params); c.opts.Answers[key] != nil {
			result, err := c.sampled(key, c.opts.Answers[key])
			if err != nil {
				return nil, err
			}
			return result.AppendJSON(nil)
		}
	}
	c.Errorf("servertest: RequestOptions.Answers has no answer to %q, a question with %s", key, question.Method)
	return nil, errNoAnswer
}

// Load returns a stored value.
func (c *caller) Load(key string) (json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.stored[key]
	return value, ok
}

// Store stores a value until the test ends.
func (c *caller) Store(key string, value json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stored == nil {
		c.stored = make(map[string]json.RawMessage)
	}
	c.stored[key] = value
}

// ID identifies the call.
func (c *caller) ID() string { return "servertest" }

// OnDone registers fn to run when the test ends.
func (c *caller) OnDone(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, fn)
}

func (c *caller) end() {
	c.mu.Lock()
	done := c.done
	c.done = nil
	c.mu.Unlock()
	for _, fn := range done {
		fn()
	}
}

// Detach has no effect: there is no connection.
func (c *caller) Detach(time.Duration) {}

// TaskID returns "".
func (c *caller) TaskID() string { return "" }
