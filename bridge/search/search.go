package search

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// search answers a call of [SearchTool].
func (p *Provider) search(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	q, err := readQuery(call.Member("arguments"))
	if err != nil {
		return refused(err), nil
	}
	o := p.now()
	answer, err := p.list(ctx, call)
	if err != nil {
		return nil, err
	}
	entries, err := o.show(answer)
	if err != nil {
		return nil, err
	}
	return newFound(entries, o.index().search(q, entries)), nil
}

// list lists the tools that the caller of a search may see, as if it were a call of
// tools/list: guards that hide have to know who asks, and may want to ask back.
func (p *Provider) list(ctx context.Context, call *mcp.Call) ([]byte, error) {
	var params json.RawMessage
	if meta := call.Member("_meta"); meta != nil {
		params = append(append(append(params, `{"_meta":`...), meta...), '}')
	}
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsList, params)
	if err != nil {
		return nil, err
	}
	list := mcp.NewCall(request, call.Caller, call)
	result, err := p.invoke(ctx, &list)
	if err != nil {
		return nil, err
	}
	if raw, ok := result.(mcp.Raw); ok {
		return raw, nil
	}
	return result.AppendJSON(nil)
}

// found is the result of a search: the entries of tools, as structured content and the
// same as text.
type found []byte

func newFound(entries []json.RawMessage, tools []int32) found {
	size := len(`{"tools":[]}`)
	for i, tool := range tools {
		size += len(entries[tool]) + 1
		if i > 0 && size > maxFound {
			tools = tools[:i]
			break
		}
	}
	f := append(make(found, 0, min(size, maxFound)), `{"tools":[`...)
	for i, tool := range tools {
		if i > 0 {
			f = append(f, ',')
		}
		f = append(f, entries[tool]...)
	}
	return append(f, `]}`...)
}

// AppendJSON appends the result object.
func (f found) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	dst = jsonscan.AppendString(dst, string(f))
	dst = append(dst, `}],"structuredContent":`...)
	return append(append(dst, f...), '}'), nil
}
