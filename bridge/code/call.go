package code

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/internal/twotools"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A toolCall is one call that a script makes.
type toolCall struct {
	run       *run
	outer     *twotools.Responder
	number    int       // from 1
	text      string    // how the script calls the function
	function  *function // nil if there is none
	arguments string    // one JSON object, unless refused says otherwise
	refused   string    // why the call cannot be made

	outcome   *outcome
	delivered bool  // the script has got the outcome
	asks      error // the questions of a call that waits for answers
}

// digest identifies the call in the history: what is called, as it is defined now, with which arguments.
func (c *toolCall) digest() string {
	if c.function == nil {
		return digestOf("call of a script", c.text, c.arguments)
	}
	e := c.function.entry
	return digestOf("call of a script", c.text, e.Name, e.Origin.Server, e.Origin.Name, e.Definition.Digest(), c.arguments)
}

type toolCallKey struct{}

// claim is the middleware nearest to the functions of tools. It records that a tool begins that must not run twice.
func claim(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if c, _ := ctx.Value(toolCallKey{}).(*toolCall); c != nil {
			if err := c.begin(ctx, call.Target()); err != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the call was not made: " + err.Error()}
			}
		}
		return next(ctx, call)
	}
}

// restarts is how often a script that runs as a task may begin again. The journal prevents that its calls are made twice.
const restarts = 3

// begin records that the tool of the call begins.
func (c *toolCall) begin(ctx context.Context, target *mcp.Target) error {
	if run := task.RunOf(ctx); run != nil && c.run.call.TaskID() != "" {
		most := 0
		if c.run.provider.shared {
			most = restarts
		}
		if err := run.Begin(ctx, most); err != nil {
			return err
		}
	}
	if mayRunAgain(target) {
		return nil
	}
	return c.run.journal.begin(ctx, c.number)
}

// mayRunAgain reports whether a call of a tool may be made twice. Annotations of a server that is not trusted do not count.
func mayRunAgain(t *mcp.Target) bool {
	if t == nil || !t.Origin.Trusted && t.Origin != (mcp.Origin{}) {
		return false
	}
	hints := t.Definition.Annotations()
	return hints.ReadOnlyHint != nil && *hints.ReadOnlyHint || hints.IdempotentHint != nil && *hints.IdempotentHint
}

// execute makes the call, as if the caller of the script had made it, and sets what has become of it: an outcome, or a question.
// It sets nothing if ctx has ended.
func (c *toolCall) execute(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil { // the result of a tool cannot be encoded
			c.run.provider.options.Logger.Error("a call of a script panicked", "tool", c.text, "panic", p, "stack", string(debug.Stack()))
			c.outcome = &outcome{Error: "the call failed; the operator has the reason"}
			c.run.journal.ended(ctx, c.number, c.outcome)
		}
	}()
	result, err := c.serve(context.WithValue(ctx, toolCallKey{}, c))
	if _, asks := mcp.AsInputRequired(err); asks {
		c.asks = c.outer.Outside(err)
		c.run.journal.asked(c.number)
		return
	}
	if err != nil && ctx.Err() != nil {
		return
	}
	c.outcome = newOutcome(result, err, c.run.provider.options.Limits.CallResult)
	c.run.journal.ended(ctx, c.number, c.outcome)
}

func (c *toolCall) serve(ctx context.Context) (mcp.Result, error) {
	nested, err := c.outer.Nest(&responder{c.outer, c}, jsonscan.AppendString(nil, c.function.entry.Name), []byte(c.arguments))
	if err != nil {
		return nil, err
	}
	e, err := c.run.provider.source.Catalog().LookupFor(ctx, nested.Caller, mcp.KindTool, c.function.entry.Name)
	if err == nil && e != nil && e.Tasks != nil && e.Task != server.TaskForbidden {
		if err := nested.BecomeTask(mcp.TaskRequest{}); err != nil { // the client cannot know a task of the tool
			return nil, err
		}
	}
	nested.SetScript(fmt.Sprintf("call %d of the script %s", c.number, c.run.digest))
	nested.FreezeArguments(nil) // that the script was approved says nothing about the arguments of its calls
	return c.run.provider.source.Serve(ctx, nested)
}

// newOutcome returns the outcome of a call that has ended. most is the largest size of a result.
func newOutcome(result mcp.Result, err error, most int) *outcome {
	if refusal, ok := errors.AsType[mcp.ToolRefusal](err); ok {
		if refused := refusal.ToolResult(); refused != nil {
			result, err = refused, nil
		}
	}
	if err == nil && result == nil {
		return &outcome{Error: "the call was made, and has no result"}
	}
	var raw []byte
	if err == nil {
		raw, err = result.AppendJSON(nil)
	}
	if err != nil {
		upstream, _ := errors.AsType[*bridge.UpstreamError](err)
		return &outcome{Error: peertext.Cut(publicText(err), maxErrorText), Unknown: upstream != nil && upstream.Delivery == jsonrpc.MaybeExecuted}
	}
	if len(raw) > most {
		return &outcome{Error: fmt.Sprintf("the call was made, and its result has %d bytes, more than %d", len(raw), most)}
	}
	return &outcome{Result: raw}
}

// publicText returns what the caller of a tool may read of an error of [server.Server.Serve].
func publicText(err error) string {
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return wire.Message
	}
	return "the call failed"
}

// A responder connects a call of a script with the caller of the script.
type responder struct {
	*twotools.Responder
	call *toolCall
}

// Notify passes on notifications. The progress of all calls of a script together is the progress of the script.
func (r *responder) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if method != mcp.NotificationProgress {
		return r.Responder.Notify(ctx, method, params)
	}
	encoded, err := params.AppendJSON(nil)
	if err != nil {
		return err
	}
	var report mcp.ProgressParams
	if err := json.Unmarshal(encoded, &report); err != nil {
		return err
	}
	message := r.call.text
	if report.Total != nil {
		message += fmt.Sprintf(" %g of %g", report.Progress, *report.Total)
	}
	if report.Message != "" {
		message += ": " + report.Message
	}
	return r.call.run.report(ctx, message)
}

// report sends progress of the script to its caller, if it has asked for that.
func (r *run) report(ctx context.Context, message string) error {
	token := r.call.ProgressToken()
	if token == nil {
		return nil
	}
	return r.call.Notify(ctx, mcp.NotificationProgress, &mcp.ProgressParams{
		ProgressToken: mcp.ProgressToken(token), Progress: float64(r.reports.Add(1)), Message: message,
	})
}
