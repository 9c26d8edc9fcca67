package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A list is the answer to a list method for those who may see all of it: encoded once,
// sent often.
type list struct {
	once  sync.Once
	hides bool // some entries, from some callers
	whole mcp.Raw
}

// listMembers are the members that hold the entries of a list.
var listMembers = [kinds]string{
	mcp.KindTool: "tools", mcp.KindPrompt: "prompts", mcp.KindResource: "resources", mcp.KindResourceTemplate: "resourceTemplates",
}

func (c *Catalog) list(kind mcp.Kind) *list {
	l := &c.lists[kind]
	l.once.Do(func() {
		l.whole = encodeList(kind, c.entries[kind], "")
		l.hides = slices.ContainsFunc(c.entries[kind], func(e *Entry) bool { return e.Visible != nil })
	})
	return l
}

// hides reports whether any list differs between callers.
func (c *Catalog) hides() bool {
	for kind := mcp.KindTool; kind < kinds; kind++ {
		if c.list(kind).hides {
			return true
		}
	}
	return false
}

// encodeList returns a page of a list; next names the next one, "" if there is none.
func encodeList(kind mcp.Kind, entries []*Entry, next string) mcp.Raw {
	size := 64 + len(next)
	for _, e := range entries {
		size += len(e.Definition.JSON()) + 1
	}
	out := append(make([]byte, 0, size), `{"`...)
	out = append(append(out, listMembers[kind]...), `":[`...)
	for i, e := range entries {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e.Definition.JSON()...)
	}
	out = append(out, ']')
	if next != "" {
		out = jsonscan.AppendString(append(out, `,"nextCursor":`...), next)
	}
	return append(out, '}')
}

// list answers a list method with what its caller may see: all of it, or a page.
func (s *Server) list(ctx context.Context, call *mcp.Call, kind mcp.Kind) (mcp.Result, error) {
	catalog, size, cursor := s.Catalog(), s.options.PageSize, call.Member("cursor")
	if string(cursor) == "null" {
		cursor = nil
	}
	l := catalog.list(kind)
	if !l.hides && size <= 0 && cursor == nil {
		return l.whole, nil
	}
	entries := catalog.entries[kind]
	if l.hides {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e *Entry) bool { return e.Visible != nil && !e.Visible(ctx, call.Caller) })
	}
	start, err := after(entries, cursor)
	if err != nil {
		return nil, err
	}
	if entries = entries[start:]; size <= 0 || len(entries) <= size {
		return encodeList(kind, entries, ""), nil
	}
	return encodeList(kind, entries[:size], cursorAfter(entries[size-1].Name)), nil
}

// after finds where the page behind a cursor begins. A cursor names the last
// entry of the page before, so it survives changes elsewhere in the list.
func after(entries []*Entry, cursor json.RawMessage) (int, error) {
	if cursor == nil {
		return 0, nil
	}
	var text string
	if err := json.Unmarshal(cursor, &text); err == nil {
		if name, err := base64.RawURLEncoding.DecodeString(text); err == nil {
			at := slices.IndexFunc(entries, func(e *Entry) bool { return e.Name == string(name) })
			if at >= 0 {
				return at + 1, nil
			}
		}
	}
	return 0, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "cursor is not one of this list: begin again without"}
}

func cursorAfter(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }
