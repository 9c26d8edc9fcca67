package bridge

import (
	"context"
	"encoding/json"
	"errors"
)

// ErrUnknownTool is the error of a [Handler] that has no tool of that name.
var ErrUnknownTool = errors.New("unknown tool")

// A Handler calls a tool by its name, for a model: the result is text. One that does not
// have the tool returns [ErrUnknownTool] and has done nothing.
type Handler func(ctx context.Context, name string, arguments json.RawMessage) (string, error)

// Handler calls the bridge's tools; results are made text by [ReduceText].
func (b *Bridge) Handler() Handler {
	return func(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
		result, err := b.CallTool(ctx, name, arguments)
		if err != nil {
			return "", err
		}
		return ReduceText(result)
	}
}

// Compose returns a handler that has the tools of all: the first of them that knows a
// tool calls it. Only [ErrUnknownTool] passes a call on, never what a tool has said.
func Compose(first, second Handler, more ...Handler) Handler {
	handlers := append([]Handler{first, second}, more...)
	return func(ctx context.Context, name string, arguments json.RawMessage) (result string, err error) {
		for _, handle := range handlers {
			result, err = handle(ctx, name, arguments)
			if !errors.Is(err, ErrUnknownTool) {
				break
			}
		}
		return result, err
	}
}
