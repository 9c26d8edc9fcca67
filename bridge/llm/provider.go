package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// ProviderOptions configure [NewProvider]. The zero value is valid.
type ProviderOptions struct {
	// Select reports whether a tool is offered, by its name. Other tools are unknown. Default: all are offered.
	Select func(name string) bool
	// CallTimeout ends each call with context.DeadlineExceeded. Default 30 s; negative means no timeout.
	CallTimeout time.Duration
}

// NewProvider returns the tools that opts select, with a timeout for each call. opts may be nil.
func NewProvider(tools Tools, opts *ProviderOptions) Tools {
	p := &provider{all: tools, opts: *cmp.Or(opts, new(ProviderOptions))}
	p.opts.CallTimeout = cmp.Or(p.opts.CallTimeout, defaultCallTimeout)
	return p
}

// defaultCallTimeout is the default of [ProviderOptions].CallTimeout.
const defaultCallTimeout = 30 * time.Second

// A provider offers a part of other tools.
type provider struct {
	all  Tools
	opts ProviderOptions
}

func (p *provider) selects(name string) bool { return p.opts.Select == nil || p.opts.Select(name) }

// Tools implements [Tools].
func (p *provider) Tools(ctx context.Context) ([]mcp.Tool, error) {
	all, err := p.all.Tools(ctx)
	return slices.DeleteFunc(slices.Clone(all), func(tool mcp.Tool) bool { return !p.selects(tool.Name) }), err
}

// CallTool implements [Tools].
func (p *provider) CallTool(ctx context.Context, name string, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	if !p.selects(name) {
		return nil, fmt.Errorf("%w: %.256q", bridge.ErrUnknownTool, name)
	}
	if p.opts.CallTimeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, p.opts.CallTimeout)
		defer cancel()
		ctx = bounded
	}
	return p.all.CallTool(ctx, name, arguments)
}

// UnknownFromText returns a handler for [FirstMatch] of one that answers the text {"error":"Unknown tool: …"} for a tool
// that it does not have, as the handlers of RoomKit do: the error is then [bridge.ErrUnknownTool]. Do not use it for
// [NewHandler]: a tool may return that text after it has run.
func UnknownFromText(handle Handler) Handler {
	return func(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
		result, err := handle(ctx, name, arguments)
		if err == nil && saysUnknown(result) {
			return "", fmt.Errorf("%w: %.256q", bridge.ErrUnknownTool, name)
		}
		return result, err
	}
}

// UnknownAsText returns a handler that answers the text {"error":"Unknown tool: NAME"} instead of [bridge.ErrUnknownTool],
// for programs that combine such handlers, as RoomKit does.
func UnknownAsText(handle Handler) Handler {
	return func(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
		result, err := handle(ctx, name, arguments)
		if errors.Is(err, bridge.ErrUnknownTool) {
			return `{"error":` + string(jsonscan.AppendString(nil, "Unknown tool: "+name)) + `}`, nil
		}
		return result, err
	}
}

// saysUnknown reports whether a result is an object whose error begins with "unknown tool", in any case.
func saysUnknown(result string) bool {
	members, err := jsonscan.ReadObject([]byte(result))
	if err != nil {
		return false
	}
	said := members.Get("error")
	if said == nil || jsonscan.KindOf(said) != jsonscan.String {
		return false
	}
	const unknown = "unknown tool"
	text := jsonscan.Unquote(said)
	return len(text) >= len(unknown) && strings.EqualFold(text[:len(unknown)], unknown)
}
