package search

import (
	"context"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// find answers a call of [SearchTool] with tools that its caller may see.
func (p *Provider) find(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	q, err := readQuery(call.Member("arguments"))
	if err != nil {
		return refused(err), nil
	}
	index := indexOf(p.within.Catalog())
	return newFound(index.entries, index.search(q, func(tool int32) bool {
		visible := index.entries[tool].Visible
		return visible == nil || visible(ctx, call.Caller)
	})), nil
}

// found is the result of a search: the entries of tools, as structured content and the
// same as text.
type found []byte

func newFound(entries []*server.Entry, tools []int32) found {
	size := len(`{"tools":[]}`)
	for i, tool := range tools {
		size += len(entries[tool].Definition.JSON()) + 1
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
		f = append(f, entries[tool].Definition.JSON()...)
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
