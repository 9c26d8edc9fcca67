package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/internal/paramheader"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

// Tool configures a tool.
type Tool struct {
	// Name has 1 to 128 characters of A–Z a–z 0–9 _ - and dot.
	Name string
	// Title is shown to people. Description explains the tool to a model.
	Title       string
	Description string
	// Annotations are hints for clients. The protocol defines the defaults.
	Annotations *mcp.ToolAnnotations
	Icons       []mcp.Icon
	// UI names the view that shows results of the tool, a [Resource] with that URI, and says whether
	// the tool is for models, for views or for both (MCP Apps). It is sent in Meta. Content of results
	// is also for clients that show no views; see [mcp.ClientCapabilities.ShowsApps].
	UI   *mcp.ToolUI
	Meta mcp.Meta
	// InputSchema and OutputSchema default to the schemas of the function's types. The type of an
	// input schema is object. Properties with the annotation x-mcp-header are copied into HTTP
	// headers, and must follow the rules of the protocol (since 2026-07-28).
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	// RequiredByTag makes only those arguments required that say so in a tag: jsonschema:"required", or
	// validate:"required" or binding:"required", which other libraries read. It holds for nested structs too.
	// Default: an argument is required unless it is a pointer, or has omitempty, omitzero or a default.
	RequiredByTag bool
	// Lenient understands arguments of another JSON type where their meaning is plain: "42" is 42, "true" is true,
	// and a single value is a list with it; see [schema.Validator.Coerce]. The input schema is listed as it is.
	Lenient bool
	// Prepare changes the arguments of a call before Lenient has effect and they are validated: it may rename members
	// that an older version had, for example. It gets a JSON object, {} if there are no arguments, and
	// must return one. Guards, people who approve, middleware of the tool and the function get the changed arguments,
	// also those of a server that has this one mounted. Options.Middleware gets those that were sent.
	// Prepare runs before guards: it must be fast, have no effects, and return the same for the same arguments. The
	// model gets its error, like that of invalid arguments, if the guards allow the call. Default: none.
	Prepare func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)
	// Unvalidated passes the arguments of a raw tool to its function without validation. InputSchema is only listed
	// then, and the function checks what it gets. A typed tool cannot have it.
	Unvalidated bool
	// TextOnly sends the JSON of a result as text only: the tool has no output schema, and its results no
	// structured content. It is for typed functions.
	TextOnly bool
	// Blocking makes [Elicit], [Sample], [Roots] and the like wait for the answer, instead of returning the error of an open
	// question, and the function runs once: for code that asks deep inside, and cannot run again from its first line. While a
	// client of 2026-07-28 has a question and no request is open, the function waits in this process. The next request
	// with the answer continues it, also through another replica with [Options].Store. Guards and middleware run again
	// in each of these requests; progress and log messages go to the last one, and are dropped while there is none.
	//
	// The context of the function ends when the request is cancelled that waits for it, when an answer does not come within
	// 11 minutes, and at a shutdown. A call that was interrupted fails with an error that says that it may have been
	// executed in part. So does a call whose replica has ended. The function must not pass its own call on, as
	// client.Session.Forward does. At most 1024 such functions run or wait at a time, 64 of
	// one client; one more call is refused with [jsonrpc.Busy] before its function begins. Default: the function runs again
	// after each answer, which needs no memory and no particular replica.
	Blocking bool
	// Timeout bounds one run of a call, including its guards. The context of the run ends, and the caller
	// gets an error, also if the function ignores its context. What the function returns later is logged and
	// dropped; see [Server.LateFunctions]. [Server.Shutdown] waits for it. Functions that go on count toward
	// [Options].RetainedBytes; when a client has left too many, and for an entry of a [NewCatalog], the reply is sent when
	// the function returns. A task fails when its function returns, or a minute later. Time spent waiting for a
	// person does not count. Default: no bound.
	Timeout time.Duration
	// Task says whether calls continue as tasks. Default: [TaskForbidden].
	Task TaskMode
	// TTL is how long after its start a task and its result are kept. A call that takes longer is
	// cancelled. Default 24 hours, at most a year.
	TTL time.Duration
	// MaxRestarts is how often the function of a task may begin again from its first line, with the values
	// of [Once], when the replica that runs the task has ended. A task that may not begin again fails with
	// the message that the call may have been executed. A replica that ends before the function has
	// begun, while the call waits for an approval for example, does not count. Default: 3 if Annotations
	// say that the tool is read-only or idempotent, and otherwise 0. A negative value means 0.
	MaxRestarts int
	// Guards and CallMiddleware apply to calls of the function; see [mcp.Guard].
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that a call needs; see [Server.Scopes].
	Scopes []string
	// Metadata is for guards and functions, in [mcp.Target]. It is not sent to clients.
	Metadata map[string]any
}

// AddTool registers a function as a tool. The function's arguments are validated against the schema
// of In and decoded; null for an optional member is read as if the member were absent. Its result
// depends on Out:
//
//   - string: text
//   - an [mcp.Content] type, []mcp.Content or [mcp.ContentList]: content
//   - *mcp.CallToolResult: the result itself
//   - any other type: structured content with an output schema, and the same JSON as text. A nil pointer is an error.
//   - a [Result]: the same with content of its own
//
// []byte is rejected because its media type is unknown. Results and content that are not pointers
// are rejected too.
//
// The function is called concurrently. AddTool may be called at any time and concurrently. It
// panics, with the file and line of the caller, if the tool cannot be registered.
func AddTool[In, Out any](s *Server, tool Tool, fn func(ctx context.Context, r *Request, in In) (Out, error)) {
	s.mustAdd(NewTool(tool, fn))
}

// NewTool returns the entry of a tool, for [Server.Replace] or [NewCatalog]. The error explains why
// the tool is invalid.
func NewTool[In, Out any](tool Tool, fn func(ctx context.Context, r *Request, in In) (Out, error)) (*Entry, error) {
	return newTypedTool(&tool, nil, reflect.TypeFor[In](), reflect.TypeFor[Out](), func(ctx context.Context, r *Request, in any) (any, error) {
		out, err := fn(ctx, r, *in.(*In))
		return &out, err
	})
}

// A function is a registered function without its types: in points to the arguments, and the result is a
// pointer to what the function returns. Whatever is generic is compiled again for each pair of types, so
// generic functions do nothing but convert to a function.
type function func(ctx context.Context, r *Request, in any) (out any, err error)

// newTypedTool returns the entry of a function that takes arguments and returns results of these types. describe
// returns the description of an argument without a tag for it; it may be nil.
func newTypedTool(tool *Tool, describe func(argument string) string, in, out reflect.Type, fn function) (*Entry, error) {
	if tool.Unvalidated {
		return nil, fmt.Errorf("tool %q: Unvalidated is for raw tools: only valid arguments fit a type", tool.Name)
	}
	arguments, err := schema.NewTypeDecoder(in, &schema.DecoderOptions{Schema: tool.InputSchema, RequiredByTag: tool.RequiredByTag})
	if err != nil {
		return nil, fmt.Errorf("tool %q: arguments: %w", tool.Name, err)
	}
	if tool.InputSchema, err = describeProperties(arguments.Schema(), describe); err != nil {
		return nil, fmt.Errorf("tool %q: arguments: %w", tool.Name, err)
	}
	decode := func(m *schema.Memory) decoder {
		arguments := arguments.WithMemory(m)
		return func(ctx context.Context, raw json.RawMessage) (any, error) {
			value := reflect.New(in).Interface()
			return value, arguments.Decode(ctx, raw, value)
		}
	}
	return newTool(tool, out, decode, func(ctx context.Context, r *Request, in any, o *output) (mcp.Result, error) {
		out, err := fn(ctx, r, in)
		if err != nil {
			return nil, err
		}
		return o.result(r, out)
	})
}

// describeProperties adds descriptions to properties of a schema that have none.
func describeProperties(raw json.RawMessage, describe func(property string) string) (json.RawMessage, error) {
	if describe == nil {
		return raw, nil
	}
	root, err := jsonscan.ReadObject(raw)
	if err != nil || root.Get("properties") == nil {
		return raw, err
	}
	properties, err := jsonscan.ReadObject(root.Get("properties"))
	if err != nil {
		return nil, err
	}
	described := root.Get("properties")
	for property := range properties.All() {
		name := jsonscan.Unquote(property.Key)
		text := describe(name)
		object, err := jsonscan.ReadObject(property.Value)
		if text == "" || err != nil || object.Get("description") != nil {
			continue
		}
		value, err := jsonscan.Splice(nil, property.Value, jsonscan.Edit{Name: "description", Value: jsonscan.AppendString(nil, text)})
		if err != nil {
			return nil, err
		}
		if described, err = jsonscan.Splice(nil, described, jsonscan.Edit{Name: name, Value: value}); err != nil {
			return nil, err
		}
	}
	return jsonscan.Splice(nil, raw, jsonscan.Edit{Name: "properties", Value: described})
}

// AddRawTool registers a function that gets its arguments as JSON. tool.InputSchema is required,
// and the arguments are validated against it, unless tool.Unvalidated is set. The function gets the arguments
// as they were sent, or as tool.Prepare and tool.Lenient have changed them, and null only
// where the schema accepts it. AddRawTool panics, with the file and line of the
// caller, if the tool cannot be registered.
func AddRawTool(s *Server, tool Tool, fn func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error)) {
	s.mustAdd(NewRawTool(tool, fn))
}

// NewRawTool returns the entry of a raw tool, for [Server.Replace] or [NewCatalog]. The error
// explains why the tool is invalid.
func NewRawTool(tool Tool, fn func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error)) (*Entry, error) {
	if err := checkInput(tool.InputSchema); err != nil {
		return nil, fmt.Errorf("tool %q: InputSchema: %w", tool.Name, err)
	}
	if tool.TextOnly || tool.RequiredByTag {
		return nil, fmt.Errorf("tool %q: TextOnly and RequiredByTag are for typed functions", tool.Name)
	}
	decode := func(*schema.Memory) decoder {
		return func(context.Context, json.RawMessage) (any, error) { return nil, nil }
	}
	if !tool.Unvalidated {
		validator, err := schema.Compile(tool.InputSchema, nil)
		if err != nil {
			return nil, fmt.Errorf("tool %q: InputSchema: %w", tool.Name, err)
		}
		decode = func(m *schema.Memory) decoder {
			validator := validator.WithMemory(m)
			return func(ctx context.Context, raw json.RawMessage) (any, error) {
				return nil, validator.Validate(ctx, orEmptyObject(raw))
			}
		}
	}
	return newTool(&tool, reflect.TypeFor[any](), decode, func(ctx context.Context, r *Request, _ any, _ *output) (mcp.Result, error) {
		return fn(ctx, r, orEmptyObject(r.call.Member("arguments")))
	})
}

// orEmptyObject returns arguments, or {} if there are none.
func orEmptyObject(arguments json.RawMessage) json.RawMessage {
	if arguments == nil || string(arguments) == "null" {
		return json.RawMessage("{}")
	}
	return arguments
}

// toolFeature is tools/list and tools/call.
var toolFeature = feature{
	methods: []method{
		{name: mcp.MethodToolsList, list: mcp.KindTool},
		{name: mcp.MethodToolsCall, kinds: []mcp.Kind{mcp.KindTool}, unknown: unknownEntry},
	},
	needed:  func(c *Catalog, more bool) bool { return more || c.Len(mcp.KindTool) > 0 },
	declare: func(has *mcp.ServerCapabilities) { has.Tools = &mcp.ToolsCapability{ListChanged: true} },
}

// A decoder validates arguments, and returns a pointer to the decoded ones, or nil if the function takes raw ones.
type decoder func(ctx context.Context, arguments json.RawMessage) (any, error)

// newTool returns the entry of a typed or raw tool. They differ in how arguments are decoded, and how run
// encodes a result of type out. decoderWith returns the decoder that shares the memory of a server.
func newTool(tool *Tool, out reflect.Type, decoderWith func(*schema.Memory) decoder, run func(ctx context.Context, r *Request, in any, o *output) (mcp.Result, error)) (*Entry, error) {
	fail := func(part string, err error) (*Entry, error) {
		return nil, fmt.Errorf("tool %q: %s%w", tool.Name, part, err)
	}
	if err := checkInput(tool.InputSchema); err != nil {
		return fail("arguments: ", err)
	}
	if err := tool.checkTask(); err != nil {
		return fail("", err)
	}
	prepare, err := tool.preparation()
	if err != nil {
		return fail("InputSchema: ", err)
	}
	o, err := newOutput(out, tool)
	if err != nil {
		return fail("", err)
	}
	if tool.UI != nil {
		if err := tool.Meta.SetToolUI(*tool.UI); err != nil {
			return fail("UI: ", err)
		}
	} else if _, err := tool.Meta.ToolUI(); err != nil {
		return fail("Meta: ", err)
	}
	definition, err := (&mcp.Tool{
		Name: tool.Name, Title: tool.Title, Description: tool.Description,
		InputSchema: tool.InputSchema, OutputSchema: o.schema,
		Annotations: tool.Annotations, Icons: tool.Icons, Execution: tool.Task.execution(), Meta: tool.Meta,
	}).MarshalJSON()
	if err != nil {
		return fail("", err)
	}
	e := newEntry(mcp.KindTool, tool.Name, definition, tool.Scopes, tool.Metadata, pending{
		guards: tool.Guards, middleware: tool.CallMiddleware, timeout: tool.Timeout,
		bind: func(s *Server, middleware mcp.Middleware) mcp.Handler {
			memory, registered := memoryOf(s), new(byte)
			decode, o := decoderWith(memory), o.withMemory(memory)
			decodeCall := func(ctx context.Context, call *mcp.Call) (any, error) {
				arguments := call.Member("arguments")
				if arguments != nil && arguments[0] != '{' && string(arguments) != "null" {
					return nil, invalidParams("arguments must be an object")
				}
				if err := prepare.failure(call); err != nil {
					return nil, err
				}
				in, err := decode(ctx, arguments)
				if err != nil && !isProtocolError(err) {
					err = &FunctionError{Arguments: true, Err: err}
				}
				return in, err
			}
			function := func(ctx context.Context, r *Request, in any) (mcp.Result, error) {
				result, err := run(ctx, r, in, &o)
				if err != nil {
					return nil, err
				}
				if err := o.check(ctx, r, tool.Name, result); err != nil {
					return nil, err
				}
				return withText(result), nil
			}
			return decodeAndRun(s, middleware, decodeCall, func(ctx context.Context, r *Request, in any) (mcp.Result, error) {
				if err := tool.becomeTask(ctx, r.call); err != nil {
					return nil, err
				}
				if !tool.Blocking {
					return function(ctx, r, in)
				}
				return r.runBlocking(ctx, tool.Name, registered, func(ctx context.Context, r *Request) (mcp.Result, error) {
					in, err := decodeCall(ctx, r.call) // which outlasts the request
					if err != nil {
						return nil, err
					}
					return function(ctx, r, in)
				})
			})
		},
	})
	e.Task, e.prepare, e.blocking = tool.Task, prepare, tool.Blocking
	return e, e.check()
}

// memoryOf returns the memory for validation that the entries of a server share. s is nil for an entry
// that is in a catalog without a server.
func memoryOf(s *Server) *schema.Memory {
	if s == nil {
		return schema.NewMemory(0)
	}
	return s.memory
}

// newEntry returns an entry that belongs to a server.
func newEntry(kind mcp.Kind, name string, definition []byte, scopes []string, metadata map[string]any, d pending) *Entry {
	d.guards, d.middleware = slices.Clone(d.guards), slices.Clone(d.middleware)
	return &Entry{Target: mcp.Target{
		Kind: kind, Name: name, Definition: mcp.NewDefinition(definition),
		Scopes: slices.Clone(scopes), Metadata: maps.Clone(metadata),
	}, pending: &d}
}

// checkInput rejects input schemas that no version of the protocol allows, and invalid x-mcp-header
// annotations, for which clients drop the tool.
func checkInput(inputSchema json.RawMessage) error {
	if !isObject(inputSchema) {
		return errors.New(`a tool takes an object: the schema needs "type":"object" at its root`)
	}
	_, err := paramheader.Compile(inputSchema)
	return err
}

// AddStream registers a function as a tool that produces its result in chunks. If the caller has
// asked for progress, each chunk is sent immediately as a progress notification: progress is 0, 1,
// 2, … and the message is the chunk's JSON (since 2025-03-26). The total is the argument of
// [Request.SetChunks]. reduce converts all chunks to the result of the tool, as in [AddTool];
// [JoinText] and [LastChunk] cover common cases. reduce may range over the chunks once. The function
// is blocked while the caller reads slowly.
//
// An error ends the stream and is the result of the call. Chunks that were sent before it are not
// withdrawn. Therefore a stream can ask questions ([Elicit]) only before its first chunk, unless it is [Tool].Blocking. AddStream
// panics, with the file and line of the caller, if the tool cannot be registered.
func AddStream[In, Chunk, Out any](s *Server, tool Tool, fn func(ctx context.Context, r *Request, in In) iter.Seq2[Chunk, error], reduce func(iter.Seq[Chunk]) Out) {
	s.mustAdd(NewStream(tool, fn, reduce))
}

// NewStream returns the entry of a streaming tool, for [Server.Replace] or [NewCatalog]. The error
// explains why the tool is invalid.
func NewStream[In, Chunk, Out any](tool Tool, fn func(ctx context.Context, r *Request, in In) iter.Seq2[Chunk, error], reduce func(iter.Seq[Chunk]) Out) (*Entry, error) {
	return newTypedTool(&tool, nil, reflect.TypeFor[In](), reflect.TypeFor[Out](), func(ctx context.Context, r *Request, in any) (any, error) {
		sender := &chunkSender{request: r}
		out := reduce(func(yield func(Chunk) bool) {
			sender.begin()
			for chunk, err := range fn(ctx, r, *in.(*In)) {
				if !sender.send(ctx, &chunk, err) || !yield(chunk) {
					return
				}
			}
		})
		return &out, sender.err
	})
}

var errLateQuestion = errors.New("a streaming tool can ask only before its first chunk: what has been sent cannot be sent again")

// A chunkSender sends the chunks of one run of a stream to the caller.
type chunkSender struct {
	request *Request
	begun   bool
	sent    int
	err     error // the error that has ended the stream
}

func (s *chunkSender) begin() {
	if s.begun {
		panic("server.AddStream: reduce ranges over the chunks a second time")
	}
	s.begun = true
}

// send sends one chunk, unless err ends the stream. It reports whether the stream goes on.
func (s *chunkSender) send(ctx context.Context, chunk any, err error) bool {
	if _, asks := mcp.AsInputRequired(err); asks && s.sent > 0 {
		err = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: errLateQuestion.Error()}
	}
	if err == nil {
		err = s.request.sendChunk(ctx, s.sent, chunk)
		s.sent++
	}
	s.err = err
	return err == nil
}

func (r *Request) sendChunk(ctx context.Context, index int, chunk any) error {
	if r == nil || r.call.ProgressToken() == nil && !r.continues() {
		return nil
	}
	text, err := jsonvalue.Marshal(chunk)
	if err != nil {
		return err
	}
	total, _ := r.call.Get(chunksKey{}).(int) // 0 if it is unknown
	return r.Progress(ctx, float64(index), float64(total), string(text))
}

// JoinText concatenates chunks of text.
func JoinText(chunks iter.Seq[string]) string {
	var b strings.Builder
	for chunk := range chunks {
		b.WriteString(chunk)
	}
	return b.String()
}

// LastChunk returns the last chunk, or the zero value if there is none.
func LastChunk[T any](chunks iter.Seq[T]) T {
	var last T
	for last = range chunks {
	}
	return last
}
