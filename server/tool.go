package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/internal/mirror"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

// A Tool describes a tool at registration.
type Tool struct {
	// Name is what clients call it: 1 to 128 of A–Z a–z 0–9 _ - and dot.
	Name string
	// Title is for people; Description tells a model what the tool does.
	Title       string
	Description string
	// Annotations are hints; absent ones mean what the protocol says.
	Annotations *mcp.ToolAnnotations
	Icons       []mcp.Icon
	Meta        mcp.Meta
	// InputSchema and OutputSchema are reflected from the function's types
	// unless they are given here. An input schema is an object's. Properties
	// in it that are annotated with x-mcp-header, and so mirrored into HTTP
	// headers, must follow the protocol's rules for that (since 2026-07-28).
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	// Timeout bounds one run of the function, cooperatively: its context ends,
	// and the reply goes out when it returns. Time spent waiting for a person
	// does not count. 0 means no bound.
	Timeout time.Duration
	// Around stands around the function.
	Around Around
}

// AddTool registers a function as a tool. Arguments are validated against In's
// schema and decoded; the result is what Out says:
//
//   - string: text;
//   - an [mcp.Content] type, []mcp.Content or [mcp.ContentList]: that content;
//   - *mcp.CallToolResult: the result as it is;
//   - anything else: structured content with an output schema, and the same JSON
//     as text. A nil pointer is an error, and []byte is refused: it does not say
//     what it holds.
//
// It panics, naming the place, when the tool cannot be registered.
func AddTool[In, Out any](s *Server, tool Tool, fn func(ctx context.Context, r *Request, in In) (Out, error)) {
	s.mustAdd(NewTool(tool, fn))
}

// NewTool checks and compiles a tool for [Server.Replace].
func NewTool[In, Out any](tool Tool, fn func(ctx context.Context, r *Request, in In) (Out, error)) (Entry, error) {
	if err := checkName(toolKind, tool.Name); err != nil {
		return nil, err
	}
	decoder, err := schema.NewDecoder[In](&schema.DecoderOptions{Schema: tool.InputSchema})
	if err != nil {
		return nil, fmt.Errorf("tool %q: arguments: %w", tool.Name, err)
	}
	tool.InputSchema = decoder.Schema()
	if err := checkInput(tool.InputSchema); err != nil {
		return nil, fmt.Errorf("tool %q: arguments: %w", tool.Name, err)
	}
	check, err := newOutputCheck(tool.OutputSchema)
	if err != nil {
		return nil, fmt.Errorf("tool %q: OutputSchema: %w", tool.Name, err)
	}
	output, err := newOutput[Out](tool.OutputSchema)
	if err != nil {
		return nil, fmt.Errorf("tool %q: result: %w", tool.Name, err)
	}
	tool.OutputSchema = output.schema
	run := func(ctx context.Context, r *Request, in In) (mcp.Result, error) {
		out, err := fn(ctx, r, in)
		if err != nil {
			return nil, err
		}
		result, err := output.result(out)
		if err != nil {
			return nil, err
		}
		return result, check.result(r, tool.Name, result)
	}
	return newToolEntry(tool, func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error) {
		in, err := decoder.Decode(arguments)
		if err != nil {
			return nil, err
		}
		return inner(ctx, r, in, run)
	})
}

// AddRawTool registers a function that takes its arguments as the JSON they came
// in, valid by tool.InputSchema, which must be given. It panics, naming the
// place, when the tool cannot be registered.
func AddRawTool(s *Server, tool Tool, fn func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error)) {
	s.mustAdd(NewRawTool(tool, fn))
}

// NewRawTool checks and compiles a raw tool for [Server.Replace].
func NewRawTool(tool Tool, fn func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error)) (Entry, error) {
	if err := checkName(toolKind, tool.Name); err != nil {
		return nil, err
	}
	if err := checkInput(tool.InputSchema); err != nil {
		return nil, fmt.Errorf("tool %q: InputSchema: %w", tool.Name, err)
	}
	validator, err := schema.Compile(tool.InputSchema, nil)
	if err != nil {
		return nil, fmt.Errorf("tool %q: InputSchema: %w", tool.Name, err)
	}
	check, err := newOutputCheck(tool.OutputSchema)
	if err != nil {
		return nil, fmt.Errorf("tool %q: OutputSchema: %w", tool.Name, err)
	}
	run := func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error) {
		result, err := fn(ctx, r, arguments)
		if err != nil {
			return nil, err
		}
		return result, check.result(r, tool.Name, result)
	}
	return newToolEntry(tool, func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error) {
		if arguments == nil || string(arguments) == "null" {
			arguments = json.RawMessage("{}")
		}
		if err := validator.Validate(arguments); err != nil {
			return nil, err
		}
		return inner(ctx, r, arguments, run)
	})
}

// checkInput refuses what no version of the protocol has a form for, and what
// makes clients drop the tool: bad x-mcp-header annotations.
func checkInput(inputSchema json.RawMessage) error {
	if !isObject(inputSchema) {
		return errors.New(`a tool takes an object: the schema needs "type":"object" at its root`)
	}
	_, err := mirror.Compile(inputSchema)
	return err
}

// toolEntry is a tool with its compiled way from bytes to bytes.
type toolEntry struct {
	attended
	timeout time.Duration
	list    Listed
	run     func(ctx context.Context, r *Request) (mcp.Result, error)
}

func newToolEntry(tool Tool, run toolRun) (Entry, error) {
	encoded, err := (&mcp.Tool{
		Name: tool.Name, Title: tool.Title, Description: tool.Description,
		InputSchema: tool.InputSchema, OutputSchema: tool.OutputSchema,
		Annotations: tool.Annotations, Icons: tool.Icons, Meta: tool.Meta,
	}).AppendJSON(make([]byte, 0, 128+len(tool.Description)+len(tool.InputSchema)+len(tool.OutputSchema)))
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", tool.Name, err)
	}
	return &toolEntry{
		attended: attended{of: entryKey{toolKind, tool.Name}, around: tool.Around}, timeout: tool.Timeout,
		list: Listed{tool.Name, encoded}, run: run.withObject,
	}, nil
}

// A toolRun runs a tool's function on its arguments as they came, nil if there are none.
type toolRun func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error)

// withObject refuses what cannot be arguments, and not before the guards have been asked.
func (run toolRun) withObject(ctx context.Context, r *Request) (mcp.Result, error) {
	arguments := r.call.Member("arguments")
	if arguments != nil && arguments[0] != '{' && string(arguments) != "null" {
		return nil, invalidParams("arguments must be an object")
	}
	return run(ctx, r, arguments)
}

func (e *toolEntry) listed() Listed { return e.list }

func (e *toolEntry) within(more Around) Entry {
	inner := *e
	inner.around = e.around.within(more)
	return &inner
}

func (e *toolEntry) call(ctx context.Context, s *Server, call *mcp.Call) (mcp.Result, error) {
	if e.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.timeout, fmt.Errorf("tool %q took longer than %v", e.of.name, e.timeout))
		defer cancel()
	}
	result, err := e.attend(ctx, s, call, e.run)
	if err == nil {
		return result, nil
	}
	if cause := context.Cause(ctx); cause != nil && ctx.Err() == context.DeadlineExceeded && !isProtocolError(err) {
		err = cause
	}
	return e.tell(ctx, err)
}

// toolError is an error as the model sees it.
func toolError(err error) mcp.Result {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(err.Error())}, IsError: true}
}
