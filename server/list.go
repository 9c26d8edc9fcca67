package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A list is the answer to a list method for callers who see all entries.
type list struct {
	once     sync.Once
	filtered bool             // some callers do not see some entries
	pages    map[string]*page // by cursor, "" for the first one
}

// A page is encoded when it is needed first.
type page struct {
	once       sync.Once
	start, end int // of its entries
	encoded    *era.Page
}

// list returns the list of a kind in pages with at most size entries.
func (c *Catalog) list(kind mcp.Kind, size int) *list {
	l := &c.lists[kind]
	l.once.Do(func() {
		if l.filtered = c.hasHidden(kind); l.filtered {
			return
		}
		l.pages = make(map[string]*page)
		entries, cursor := c.entries[kind], ""
		for start := 0; ; {
			p := &page{start: start, end: start + pageLen(entries[start:], size)}
			l.pages[cursor] = p
			if start = p.end; start == len(entries) {
				return
			}
			cursor = encodeCursor(entries[start-1].Name)
		}
	})
	return l
}

// page returns the page that begins at a cursor, or nil.
func (c *Catalog) page(kind mcp.Kind, cursor json.RawMessage, size int) *era.Page {
	text := ""
	if cursor != nil {
		if err := json.Unmarshal(cursor, &text); err != nil || text == "" {
			return nil
		}
	}
	p := c.list(kind, size).pages[text]
	if p == nil {
		return nil
	}
	p.once.Do(func() { p.encoded = era.NewPage(encodePage(kind, c.entries[kind][p.start:], p.end-p.start, c.meta())) })
	return p.encoded
}

// hasHidden reports whether some callers do not see some entries.
func (c *Catalog) hasHidden(kind mcp.Kind) bool {
	return slices.ContainsFunc(c.entries[kind], func(e *Entry) bool { return e.Visible != nil })
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
	if page := catalog.page(kind, cursor, size); page != nil {
		return page, nil
	}
	entries := catalog.entries[kind]
	start, err := pageStart(entries, cursor)
	if err != nil {
		return nil, err
	}
	rest := entries[start:]
	if catalog.list(kind, size).filtered {
		if start > 0 && s.visible(ctx, call.Caller, catalog, entries[start-1]) == nil {
			return nil, errUnknownCursor
		}
		rest = s.visiblePage(ctx, call.Caller, catalog, rest)
	}
	return encodePage(kind, rest, pageLen(rest, size), catalog.meta()), nil
}

func (e *Entry) visibleTo(ctx context.Context, caller *mcp.Caller) bool {
	return e.Visible == nil || e.Visible(ctx, caller)
}

// visiblePage returns the first entries that the caller sees: as many as a page may have, and one more if there is one.
func (s *Server) visiblePage(ctx context.Context, caller *mcp.Caller, c *Catalog, entries []*Entry) (seen []*Entry) {
	size, bytes := s.options.PageSize, 0
	for i, e := range entries {
		if i > 0 && e.Name == entries[i-1].Name { // another variant
			continue
		}
		if e = s.visible(ctx, caller, c, e); e == nil {
			continue
		}
		seen = append(seen, e)
		bytes += len(e.Definition.JSON())
		if size > 0 && len(seen) > size || bytes > maxPage && len(seen) > 1 {
			break
		}
	}
	return seen
}

// visible returns the entry or, if it has variants, the one that the caller sees. It returns nil if the caller sees none,
// or several, which is logged once for each catalog.
func (s *Server) visible(ctx context.Context, caller *mcp.Caller, c *Catalog, e *Entry) *Entry {
	seen, err := c.seenBy(ctx, caller, e)
	if err != nil {
		c.Memo(ambiguityKey{e.Kind, e.Name}, func() any {
			s.options.Logger.Error("an entry is left out of a list", "error", err)
			return nil
		})
	}
	return seen
}

type ambiguityKey struct {
	kind mcp.Kind
	name string
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

// pageLen returns how many entries the page has that begins with the first one: at most size, unless
// size is 0 or less, and at most maxPage bytes.
func pageLen(entries []*Entry, size int) int {
	if size <= 0 {
		size = len(entries)
	}
	size = min(size, len(entries))
	for bytes, i := 0, 0; i < size; i++ {
		if bytes += len(entries[i].Definition.JSON()); bytes > maxPage && i > 0 {
			return i
		}
	}
	return size
}

// encodePage returns a page with the first entries.
func encodePage(kind mcp.Kind, entries []*Entry, count int, meta mcp.Meta) mcp.Raw {
	if count == len(entries) {
		return encodeList(kind, entries, "", meta)
	}
	return encodeList(kind, entries[:count], encodeCursor(entries[count-1].Name), meta)
}

// pageStart returns the index after the entries with the name in a cursor. Changes elsewhere in the list do
// not invalidate a cursor.
func pageStart(entries []*Entry, cursor json.RawMessage) (int, error) {
	if cursor == nil {
		return 0, nil
	}
	var text string
	if err := json.Unmarshal(cursor, &text); err == nil {
		if name, err := base64.RawURLEncoding.DecodeString(text); err == nil {
			has := func(e *Entry) bool { return e.Name == string(name) }
			if at := slices.IndexFunc(entries, has); at >= 0 {
				for at < len(entries) && has(entries[at]) {
					at++
				}
				return at, nil
			}
		}
	}
	return 0, errUnknownCursor
}

var errUnknownCursor = &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "unknown cursor: list again without a cursor"}

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
