package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Tools returns an iterator over the server's tools. It reads page by page. An error ends it, after
// the tools of the pages before. An invalid tool, or one that exceeds [Limits], is skipped. A
// cursor that the server has returned before ends the list. Both are logged to [Options].Logger. The
// iterator can be used once for each call of Tools. A caller that retains a pointer retains
// all tools of the page; a copy of the value shares no memory with the others. Pages may come from
// the session's cache, unless opts has a Meta. opts may be nil, and applies to the call for each page.
func (s *Session) Tools(ctx context.Context, opts *CallOptions) iter.Seq2[*mcp.Tool, error] {
	return pages(ctx, s, opts, mcp.KindTool, mcp.MethodToolsList, "tools", toolField)
}

// CallTool calls a tool. arguments is a struct, a map or a json.RawMessage that is a JSON object;
// nil means none, also a nil json.RawMessage. omitempty means the same as in encoding/json. A failure that the tool reports is
// a result with IsError. opts may be nil. Errors are as in [Session.Call].
//
// If the server continues the call as a task, CallTool waits for the task, also while the connection is renewed. It
// answers the questions of the task like the questions of a call. When ctx ends, it cancels the task, for which it
// waits up to 2 s, unless opts has OnTask. A task that was cancelled at the server is [ErrTaskCancelled].
func (s *Session) CallTool(ctx context.Context, name string, arguments any, opts *CallOptions) (*mcp.CallToolResult, error) {
	resp, held, err := s.callTool(ctx, name, arguments, opts)
	if err != nil {
		return nil, err
	}
	defer held.free() // decode copies
	result, err := decodeToolResult(resp)
	s.logUndecoded(mcp.MethodToolsCall, result)
	return result, err
}

// callTool makes a call. The params hold the buffer of the response.
func (s *Session) callTool(ctx context.Context, name string, arguments any, opts *CallOptions) (*jsonrpc.Response, *heldParams, error) {
	encoded := argumentBuffers.Get()
	params, err := encodeArguments(encoded, arguments)
	if err != nil {
		return nil, nil, notSent(mcp.MethodToolsCall, err)
	}
	meta, err := opts.meta()
	if err != nil {
		return nil, nil, notSent(mcp.MethodToolsCall, err)
	}
	held := &heldParams{Appender: &mcp.CallToolParams{Name: name, Arguments: params, Meta: meta}}
	resp, err := s.do(ctx, mcp.MethodToolsCall, held, opts)
	encoded.Free() // not deferred: after a panic of a callback the call still uses it
	return resp, held, err
}

func decodeToolResult(resp *jsonrpc.Response) (*mcp.CallToolResult, error) {
	result := new(mcp.CallToolResult)
	if err := decode(mcp.MethodToolsCall, resp, result); err != nil {
		return nil, err
	}
	if result.ResultType == mcp.ResultTask {
		return nil, asCallError(mcp.MethodToolsCall, errIsTask)
	}
	return result, nil
}

var errIsTask = errors.New("the call continues as a task, which Session.Call returns if client.Options.Capabilities is set")

// argumentBuffers holds encoded arguments until they are sent.
var argumentBuffers bufpool.Pool

// encodeArguments returns arguments as JSON. The result uses the buffer, unless arguments is JSON
// already.
func encodeArguments(to *bufpool.Buffer, arguments any) (json.RawMessage, error) {
	switch arguments := arguments.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if arguments == nil {
			return nil, nil
		}
		err := jsonscan.Valid(arguments)
		if err == nil {
			return arguments, mustBeObject(arguments)
		}
		if utf8.Valid(arguments) {
			return nil, fmt.Errorf("arguments: %w", err)
		}
	}
	var err error
	if to.Bytes, err = jsonvalue.Append(to.Bytes, arguments); err != nil {
		return nil, fmt.Errorf("encoding arguments: %w", err)
	}
	return to.Bytes, mustBeObject(to.Bytes)
}

func mustBeObject(arguments json.RawMessage) error {
	if kind := jsonscan.KindOf(arguments); kind != jsonscan.Object {
		return fmt.Errorf("arguments must be an object, not %v", kind)
	}
	return nil
}

// A ToolError is a failure that a tool reported.
type ToolError struct {
	// Tool is the name of the tool. It is "" for [WaitAs].
	Tool string
	// Result is the result with IsError.
	Result *mcp.CallToolResult
}

// Error contains the name of the tool, if it is known, and the text of its result.
func (e *ToolError) Error() string {
	if e.Tool == "" {
		return "the tool has failed: " + e.Result.Text()
	}
	return fmt.Sprintf("tool %q: %s", e.Tool, e.Result.Text())
}

// A ResultError means that a tool has run and that its result does not fit the type of [CallAs].
type ResultError struct {
	// Tool is the name of the tool. It is "" for [WaitAs].
	Tool string
	// Err explains why the result does not fit.
	Err error
}

// Error contains the name of the tool, if it is known, and that it has run.
func (e *ResultError) Error() string {
	if e.Tool == "" {
		return fmt.Sprintf("the tool has run; %v", e.Err)
	}
	return fmt.Sprintf("tool %q has run; %v", e.Tool, e.Err)
}

// Unwrap returns Err.
func (e *ResultError) Unwrap() error { return e.Err }

// CallAs calls a tool and decodes its structured content. If there is none, CallAs decodes the JSON
// in its text. If Out is string and the structured content is no string, the result is the text. A
// failure that the tool reports is a *[ToolError]. A result that does not fit Out is a *[ResultError].
// Other errors, and tasks, are as in [Session.CallTool]. opts may be nil.
func CallAs[Out any](ctx context.Context, s *Session, name string, arguments any, opts *CallOptions) (Out, error) {
	var out Out
	err := s.callInto(ctx, name, arguments, opts, &out)
	return out, err
}

// callInto calls a tool for [CallAs], and decodes its result into what out points to.
func (s *Session) callInto(ctx context.Context, name string, arguments any, opts *CallOptions, out any) error {
	resp, held, err := s.callTool(ctx, name, arguments, opts)
	if err != nil {
		return err
	}
	defer held.free() // decode copies
	return decodeInto(name, resp, out)
}

// decodeInto decodes the result of a call for [CallAs].
func decodeInto(name string, resp *jsonrpc.Response, out any) (err error) {
	_, wantsText := out.(*string)
	structured := structuredContent(resp)
	if structured != nil && (!wantsText || jsonscan.KindOf(structured) == jsonscan.String) {
		err = jsonvalue.Unmarshal(structured, out)
	} else {
		result, failure := decodeToolResult(resp)
		switch {
		case failure != nil:
			return failure
		case result.IsError:
			return &ToolError{Tool: name, Result: result}
		}
		if result.StructuredContent != nil && !wantsText { // null
			err = jsonvalue.Unmarshal(result.StructuredContent, out)
		} else {
			err = decodeText(result, out)
		}
	}
	if err != nil {
		return &ResultError{Tool: name, Err: fmt.Errorf("its result does not fit %v: %w", reflect.TypeOf(out).Elem(), err)}
	}
	return nil
}

// structuredContent returns the structured content of a successful result, or nil. It does not read
// the text, which contains the same again. Of members with the same name, it has the last one.
func structuredContent(resp *jsonrpc.Response) json.RawMessage {
	if content := resp.Member("content"); content != nil && jsonscan.KindOf(content) != jsonscan.Array {
		return nil
	}
	if failed := resp.Member("isError"); failed != nil && string(failed) != "false" {
		return nil
	}
	structured := resp.Member("structuredContent")
	if structured == nil {
		return nil
	}
	scan := jsonscan.New(structured)
	if _, err := scan.UniqueValue(); err == nil {
		return structured
	}
	last, err := jsonscan.LastMembers(structured)
	if err != nil {
		return structured // decoding reports the error
	}
	return last
}

func decodeText(result *mcp.CallToolResult, out any) error {
	for _, c := range result.Content {
		text, ok := c.(*mcp.TextContent)
		if !ok {
			continue
		}
		if s, ok := out.(*string); ok {
			*s = result.Text()
			return nil
		}
		return jsonvalue.Unmarshal([]byte(text.Text), out)
	}
	return fmt.Errorf("it has neither structured content nor text")
}

var (
	// errStopped ends a call whose caller has ended the loop.
	errStopped    = errors.New("the caller has ended the loop")
	errChunksLost = errors.New("chunks were lost: the loop is too slow")
)

// Stream calls a tool that returns its result in chunks, and yields the JSON of each chunk when it
// arrives; see server.AddStream. It needs version 2025-03-26 or newer. A tool that sends no chunks
// yields none. Ending the loop cancels the call. The call does not become a task, since a task has no
// chunks: a tool that runs only as a task returns an error.
//
// An error is the last value: the error of the call, a *[ToolError] for a result with IsError, or
// an error that chunks were lost, because the loop was behind by more than 16,384 chunks or 16 MiB.
// Lost chunks cancel the call.
//
// opts may be nil. Its Progress is called before each chunk is yielded; the Total of the parameters is
// the number of chunks, if the tool states it; see server.Request.SetChunks. Each chunk restarts the timeout of the call.
func (s *Session) Stream(ctx context.Context, name string, arguments any, opts *CallOptions) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		over, next := false, 0.0
		var own CallOptions
		if opts != nil {
			own = *opts
		}
		own.noTask = true
		report := own.Progress
		own.Progress = func(p *mcp.ProgressParams) {
			if over {
				return
			}
			if report != nil {
				report(p)
			}
			if p.Message == "" {
				return
			}
			if p.Progress != next {
				over = true
				cancel(errChunksLost)
				yield(nil, asCallError(mcp.MethodToolsCall, errChunksLost))
				return
			}
			next++
			if !yield(json.RawMessage(p.Message), nil) {
				over = true
				cancel(errStopped)
			}
		}
		result, err := s.CallTool(ctx, name, arguments, &own)
		switch {
		case over:
		case err != nil:
			yield(nil, err)
		case result.IsError:
			yield(nil, &ToolError{Tool: name, Result: result})
		}
	}
}
