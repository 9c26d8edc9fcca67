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
	"github.com/dovetail-go/dovetail/internal/paramheader"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// headerBindings records which arguments of a tool a call repeats in headers, as the lists
// of tools from the server declare it.
type headerBindings struct {
	mu    sync.RWMutex
	tools map[string]headerBinding // only tools with such arguments
	size  int                      // of all tools
}

// A headerBinding has the header parameters of a tool. size is the size of the tool's name and schema, in bytes.
type headerBinding struct {
	params *paramheader.Params
	size   int
}

// get returns the header parameters of a tool, or nil if it has none.
func (b *headerBindings) get(tool string) *paramheader.Params {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.tools[tool].params
}

func (b *headerBindings) set(tool string, params *paramheader.Params, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size -= b.tools[tool].size
	delete(b.tools, tool)
	if params == nil || len(b.tools) == maxBindings || b.size+size > maxBindingBytes {
		return
	}
	if b.tools == nil {
		b.tools = make(map[string]headerBinding)
	}
	b.tools[tool] = headerBinding{params, size}
	b.size += size
}

func (b *headerBindings) isEmpty() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.tools) == 0
}

// update records the tools of a list. It removes tools with invalid annotations from the
// response, since they must not be called. See MCP 2026-07-28, server/tools.
func (b *headerBindings) update(resp *jsonrpc.Response, logger *slog.Logger) {
	if b.isEmpty() && !bytes.Contains(resp.Result, []byte("x-mcp-header")) && !bytes.Contains(resp.Result, []byte(`\u00`)) {
		return
	}
	tools := resp.Member("tools")
	kept, dropped := []byte{'['}, false
	for tool := range elements(tools) {
		if name, err := b.add(tool); err != nil {
			logger.Warn("streamable: tool with invalid annotations removed from the list", "tool", name, "error", err)
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
	if err == nil { // the result was scanned before
		resp.Result = result
	}
}

// add records one tool.
func (b *headerBindings) add(tool json.RawMessage) (name string, err error) {
	members, err := jsonscan.ReadObject(tool)
	if err != nil || jsonscan.KindOf(members.Get("name")) != jsonscan.String {
		return "", nil // decoding the list will fail
	}
	name = jsonscan.Unquote(members.Get("name"))
	params, err := paramheader.Compile(members.Get("inputSchema"))
	b.set(name, params, len(tool))
	return name, err
}

// elements returns the elements of a valid JSON array, and none for any other value.
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

// relistTools lists all tools, to find the header that a refused call lacked. The requests
// have the _meta of the call, without its progress token.
func (c *clientConn) relistTools(ctx context.Context, refusedCall []byte) error {
	msg, err := jsonrpc.Decode(refusedCall)
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
		c.bindings.update(resp, c.dialer.opts.Logger)
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
