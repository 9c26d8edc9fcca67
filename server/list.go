package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// lists are what a catalogue says to the list methods.
type lists struct {
	from                                 *Catalogue
	tools, prompts, resources, templates list
	schemas                              map[string]json.RawMessage // of the input of each tool
}

// lists are made once for each catalogue.
func (s *Server) lists() *lists {
	catalogue := s.provider.Catalogue()
	if l := s.listed.Load(); l != nil && l.from == catalogue {
		return l
	}
	l := &lists{
		from:      catalogue,
		tools:     newList("tools", catalogue.Tools),
		prompts:   newList("prompts", catalogue.Prompts),
		resources: newList("resources", catalogue.Resources),
		templates: newList("resourceTemplates", catalogue.Templates),
		schemas:   inputSchemas(catalogue.Tools),
	}
	s.listed.Store(l)
	return l
}

// InputSchema returns the input schema of a tool as it stands in the list of
// tools, nil when there is no such tool. It is for transports that have to know
// which arguments are mirrored into headers: the lookup is done without a lock or
// an allocation, and as fast for many tools as for one. Do not change the result.
func (s *Server) InputSchema(tool string) json.RawMessage { return s.lists().schemas[tool] }

func inputSchemas(tools []Listed) map[string]json.RawMessage {
	schemas := make(map[string]json.RawMessage, len(tools))
	for _, tool := range tools {
		if listed, err := jsonscan.ReadObject(tool.JSON); err == nil {
			schemas[tool.Name] = listed.Get("inputSchema")
		}
	}
	return schemas
}

// A list is the answer to a list method: encoded once, sent often.
type list struct {
	member  string
	entries []Listed
	whole   mcp.Raw
}

func newList(member string, entries []Listed) list {
	l := list{member: member, entries: entries}
	l.whole = l.encode(entries, "")
	return l
}

func (l *list) encode(entries []Listed, next string) mcp.Raw {
	size := 64 + len(next)
	for _, e := range entries {
		size += len(e.JSON) + 1
	}
	out := append(make([]byte, 0, size), `{"`...)
	out = append(append(out, l.member...), `":[`...)
	for i, e := range entries {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e.JSON...)
	}
	out = append(out, ']')
	if next != "" {
		out = jsonscan.AppendString(append(out, `,"nextCursor":`...), next)
	}
	return append(out, '}')
}

// list answers a list method with what its caller may see.
func (s *Server) list(ctx context.Context, call *mcp.Call, kind kind, all *list) (mcp.Result, error) {
	if !s.provider.hides() {
		return all.page(call, s.options.PageSize)
	}
	visible := list{member: all.member}
	for _, entry := range all.entries {
		if s.provider.isVisible(ctx, entryKey{kind, entry.Name}, call) {
			visible.entries = append(visible.entries, entry)
		}
	}
	visible.whole = visible.encode(visible.entries, "")
	return visible.page(call, s.options.PageSize)
}

// page answers a list method: all of it, or a page when pages are wanted.
func (l *list) page(call *mcp.Call, size int) (mcp.Result, error) {
	cursor := call.Member("cursor")
	if string(cursor) == "null" {
		cursor = nil
	}
	if size <= 0 && cursor == nil {
		return l.whole, nil
	}
	start, err := l.after(cursor)
	if err != nil {
		return nil, err
	}
	rest := l.entries[start:]
	if size <= 0 || len(rest) <= size {
		return l.encode(rest, ""), nil
	}
	return l.encode(rest[:size], cursorAfter(rest[size-1].Name)), nil
}

// after finds where the page behind a cursor begins. A cursor names the last
// entry of the page before, so it survives changes elsewhere in the list.
func (l *list) after(cursor json.RawMessage) (int, error) {
	if cursor == nil {
		return 0, nil
	}
	var text string
	if err := json.Unmarshal(cursor, &text); err == nil {
		if name, err := base64.RawURLEncoding.DecodeString(text); err == nil {
			at := slices.IndexFunc(l.entries, func(e Listed) bool { return e.Name == string(name) })
			if at >= 0 {
				return at + 1, nil
			}
		}
	}
	return 0, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "cursor is not one of this list: begin again without"}
}

func cursorAfter(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }
