package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/dovetail-go/dovetail/mcp"
)

var (
	// errEnough ends a call whose caller wants no more chunks.
	errEnough = errors.New("no more chunks are wanted")
	errLost   = errors.New("chunks were lost: they came faster than the loop took them")
)

// Stream calls a tool that gives its result piece by piece, and yields the pieces as
// they come, each as its JSON; see server.AddStream. A call that fails, or a result
// with IsError, is the last thing it yields. Breaking off the loop cancels the call.
// Pieces need version 2025-03-26 or newer; a tool that gives none yields none. A loop
// that lags behind by more than 16,384 pieces, or 16 MiB, has lost some: then the call
// is cancelled, and an error is the last thing that comes.
func (s *Session) Stream(ctx context.Context, name string, arguments any) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		over, next := false, 0.0
		result, err := s.CallTool(ctx, name, arguments, &CallOptions{Progress: func(p *mcp.ProgressParams) {
			if over || p.Message == "" {
				return
			}
			if p.Progress != next {
				over = true
				cancel(errLost)
				yield(nil, asCallError(mcp.MethodToolsCall, errLost))
				return
			}
			next++
			if !yield(json.RawMessage(p.Message), nil) {
				over = true
				cancel(errEnough)
			}
		}})
		switch {
		case over:
		case err != nil:
			yield(nil, err)
		case result.IsError:
			yield(nil, &ToolError{Tool: name, Result: result})
		}
	}
}
