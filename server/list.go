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

// A list is the encoded answer to a list method for callers who see all entries.
type list struct {
	once     sync.Once
	filtered bool    // some callers do not see some entries
	encoded  mcp.Raw // the first page, unless the server has a smaller limit of entries
	next     int     // the number of entries of encoded
}

func (c *Catalog) list(kind mcp.Kind) *list {
	l := &c.lists[kind]
	l.once.Do(func() {
		l.encoded, l.next = encodePage(kind, c.entries[kind], 0, c.meta())
		l.filtered = slices.ContainsFunc(c.entries[kind], func(e *Entry) bool { return e.Visible != nil })
	})
	return l
}

// hasHidden reports whether any list differs between callers.
func (c *Catalog) hasHidden() bool {
	for kind := mcp.KindTool; kind < kindCount; kind++ {
		if c.list(kind).filtered {
			return true
		}
	}
	return false
}

// encodeList returns one page of a list. next is the cursor of the next page, or "". meta may be nil.
func encodeList(kind mcp.Kind, entries []*Entry, next string, meta mcp.Meta) mcp.Raw {
	size := 64 + len(next) + len(meta)
	for _, e := range entries {
		size += len(e.Definition.JSON()) + 1
	}
	out := append(make([]byte, 0, size), `{"`...)
	out = append(append(out, kinds[kind].list...), `":[`...)
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
	if meta != nil {
		out = append(append(out, `,"_meta":`...), meta...)
	}
	return append(out, '}')
}

// list answers a list method with the entries that the caller sees.
func (s *Server) list(ctx context.Context, call *mcp.Call, kind mcp.Kind) (mcp.Result, error) {
	catalog, size, cursor := s.Catalog(), s.options.PageSize, cursorOf(call)
	l := catalog.list(kind)
	if !l.filtered && cursor == nil && (size <= 0 || size >= l.next) {
		return l.encoded, nil
	}
	entries := catalog.entries[kind]
	if l.filtered {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e *Entry) bool { return e.Visible != nil && !e.Visible(ctx, call.Caller) })
	}
	start, err := pageStart(entries, cursor)
	if err != nil {
		return nil, err
	}
	page, _ := encodePage(kind, entries[start:], size, catalog.meta())
	return page, nil
}

// cursorOf returns the cursor of a call, or nil for the first page.
func cursorOf(call *mcp.Call) json.RawMessage {
	cursor := call.Member("cursor")
	if string(cursor) == "null" || string(cursor) == `""` { // some clients send them for the first page
		return nil
	}
	return cursor
}

// maxPage bounds the definitions of one page, in bytes, unless one definition is longer. Clients
// accept messages of 4 MiB and more.
const maxPage = 1 << 20

// encodePage returns a page with the first entries, and their number: at most size, unless size is
// 0 or less, and at most maxPage bytes.
func encodePage(kind mcp.Kind, entries []*Entry, size int, meta mcp.Meta) (page mcp.Raw, count int) {
	if size <= 0 {
		size = len(entries)
	}
	size = min(size, len(entries))
	for bytes := 0; count < size; count++ {
		if bytes += len(entries[count].Definition.JSON()); bytes > maxPage && count > 0 {
			break
		}
	}
	if count == len(entries) {
		return encodeList(kind, entries, "", meta), count
	}
	return encodeList(kind, entries[:count], encodeCursor(entries[count-1].Name), meta), count
}

// pageStart returns the index after the entry that a cursor names. Changes elsewhere in the list do
// not invalidate a cursor.
func pageStart(entries []*Entry, cursor json.RawMessage) (int, error) {
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
	return 0, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "unknown cursor: list again without a cursor"}
}

func encodeCursor(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// meta returns the _meta of lists, or nil.
func (c *Catalog) meta() mcp.Meta {
	if len(c.bridges) == 0 {
		return nil
	}
	out := append(jsonscan.AppendString([]byte{'{'}, mcp.MetaBridges), ":["...)
	for i, id := range c.bridges {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonscan.AppendString(out, id)
	}
	return mcp.Meta(append(out, "]}"...))
}
