package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/mirror"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// bindings know which arguments of which tools have headers, from the tools that
// the server has listed.
type bindings struct {
	mu    sync.RWMutex
	tools map[string]*mirror.Params // only tools that have any
}

// of returns those of one tool, nil if it has none.
func (b *bindings) of(tool string) *mirror.Params {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.tools[tool]
}

func (b *bindings) set(tool string, params *mirror.Params) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case params == nil:
		delete(b.tools, tool)
	case len(b.tools) < maxBindings:
		if b.tools == nil {
			b.tools = make(map[string]*mirror.Params)
		}
		b.tools[tool] = params
	}
}

func (b *bindings) none() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.tools) == 0
}

// watch learns from a list of tools, and takes out of it those whose annotations
// break the rules: they must not be called. MCP 2026-07-28, server/tools.
func (b *bindings) watch(resp *jsonrpc.Response, logger *slog.Logger) {
	if b.none() && !bytes.Contains(resp.Result, []byte("x-mcp-header")) && !bytes.Contains(resp.Result, []byte(`\u00`)) {
		return
	}
	tools := resp.Member("tools")
	kept, dropped := []byte{'['}, false
	for tool := range elements(tools) {
		if name, err := b.learn(tool); err != nil {
			logger.Warn("a tool was left out of the list", "tool", name, "error", err)
			dropped = true
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, tool...)
	}
	if !dropped {
		return
	}
	result, err := jsonscan.Splice(nil, resp.Result, jsonscan.Edit{Name: "tools", Value: append(kept, ']')})
	if err == nil { // the result has been scanned before
		resp.Result = result
	}
}

// learn remembers one tool.
func (b *bindings) learn(tool json.RawMessage) (name string, err error) {
	members, err := jsonscan.ReadObject(tool)
	if err != nil || jsonscan.KindOf(members.Get("name")) != jsonscan.String {
		return "", nil // whoever decodes the list will not like it
	}
	name = jsonscan.Unquote(members.Get("name"))
	params, err := mirror.Compile(members.Get("inputSchema"))
	b.set(name, params)
	return name, err
}

// elements are those of an array that has been scanned; there are none in
// anything else.
func elements(array json.RawMessage) func(yield func(json.RawMessage) bool) {
	return func(yield func(json.RawMessage) bool) {
		s := jsonscan.New(array)
		if s.Kind() != jsonscan.Array || s.EnterArray() != nil {
			return
		}
		for first := true; ; first = false {
			if ok, err := s.Element(first); err != nil || !ok {
				return
			}
			element, err := s.Value()
			if err != nil || !yield(element) {
				return
			}
		}
	}
}

var errTooManyPages = errors.New("the server's list of tools does not end")

// relearn lists all tools, since the server has found that a call lacks a header.
func (c *clientConn) relearn(ctx context.Context, refused []byte) error {
	msg, err := jsonrpc.Decode(refused)
	if err != nil {
		return err
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok {
		return fmt.Errorf("streamable: a %T was posted as a call", msg)
	}
	meta, err := jsonscan.Splice(nil, req.Member("_meta"), jsonscan.Edit{Name: mcp.MetaProgressToken})
	if err != nil {
		return err
	}
	var cursor []byte
	for range maxListPages {
		params := append([]byte(`{"_meta":`), meta...)
		if cursor != nil {
			params = append(append(params, `,"cursor":`...), cursor...)
		}
		_, resp, err := c.call(ctx, mcp.MethodToolsList, jsonrpc.Raw(append(params, '}')))
		if err != nil {
			return err
		}
		c.bindings.watch(resp, c.dialer.opts.Logger)
		next := resp.Member("nextCursor")
		if jsonscan.KindOf(next) != jsonscan.String {
			return nil
		}
		if bytes.Equal(next, cursor) {
			break
		}
		cursor = next
	}
	return errTooManyPages
}
