package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// An unmarshaler is a pointer to T that decodes JSON.
type unmarshaler[T any] interface {
	*T
	json.Unmarshaler
}

// pages reads a list page by page, and yields its entries. It stops at a repeated cursor and at the
// limits of the session. member is the member of the result that has the entries, and field is as in
// [listPage].
func pages[T any, E unmarshaler[T]](ctx context.Context, s *Session, opts *CallOptions, kind mcp.Kind, method, member string, field func(entry *T, key []byte) any) iter.Seq2[*T, error] {
	return pagesOf[T, E](ctx, s, opts, listOf{kind: kind, method: method, member: member}, field)
}

// A listOf says which list is read.
type listOf struct {
	kind           mcp.Kind
	method, member string
	uri            string // of a directory, otherwise ""
}

// params returns the params for a page, and what they ask for.
func (l *listOf) params(meta mcp.Meta, cursor *string) (params jsonrpc.Appender, about string) {
	if l.uri != "" {
		about = strconv.Quote(l.uri)
	}
	if cursor != nil {
		about += "cursor " + *cursor
	}
	if l.uri != "" {
		return &mcp.ReadDirectoryParams{URI: l.uri, Cursor: cursor, Meta: meta}, about
	}
	return &mcp.PaginatedParams{Cursor: cursor, Meta: meta}, about
}

// pagesOf is pages for any list.
func pagesOf[T any, E unmarshaler[T]](ctx context.Context, s *Session, opts *CallOptions, list listOf, field func(entry *T, key []byte) any) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		method := list.method
		meta, err := opts.meta()
		if err != nil {
			yield(nil, notSent(method, err))
			return
		}
		params, about := list.params(meta, nil)
		reader := &listReader{session: s, kind: list.kind, method: method}
		defer reader.end()
		for {
			page := listPage[T, E]{list: reader, member: list.member, field: field}
			if meta.IsZero() {
				err = s.fetch(ctx, method, about, params, &page, opts)
			} else {
				err = s.call(ctx, method, params, &page, opts)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.entries {
				if !yield(&page.entries[i], nil) {
					return
				}
			}
			if page.err != nil {
				yield(nil, asCallError(method, page.err))
				return
			}
			if page.next == nil || page.last {
				return
			}
			params, about = list.params(meta, page.next)
		}
	}
}

// A listPage is a page of a list. Its Unmarshaler skips invalid entries. It decodes the entries while
// it checks them, because scanning a page takes most of the time that reading a list takes.
type listPage[T any, E unmarshaler[T]] struct {
	list   *listReader
	member string // of the page, which has the entries
	// field returns a *string or *json.RawMessage for the raw key of a member of an entry, or nil. It
	// serves speed only: UnmarshalJSON of the entry decodes all other members and values. A nil
	// field means that it decodes all entries.
	field func(entry *T, key []byte) any

	entries []T
	invalid []invalidEntry
	cursor  json.RawMessage // of the next page, or nil
	next    *string         // cursor as text
	last    bool            // the list ends with this page, whatever its cursor
	err     error           // why there is no next page, or nil
	keys    jsonscan.Keys   // of an entry
	rest    []byte          // the members of an entry for which field returns nil
}

// An invalidEntry is an entry that is skipped.
type invalidEntry struct {
	definition json.RawMessage
	reason     error
}

// UnmarshalJSON decodes a page. The error means that the page exceeds a limit or has no list.
func (p *listPage[T, E]) UnmarshalJSON(page []byte) error {
	var array json.RawMessage
	s := jsonscan.New(page)
	if err := s.EnterObject(); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, more, err := s.Member(first)
		switch {
		case err != nil:
			return err
		case !more:
			return p.end(len(page), array)
		case jsonscan.KeyIs(key, p.member) && s.Kind() != jsonscan.Null:
			start := s.Offset()
			err = p.decodeEntries(&s)
			array = bytes.TrimSpace(page[start:s.Offset()])
		case jsonscan.KeyIs(key, "nextCursor"):
			p.cursor, err = s.Value()
		default:
			_, err = s.Value()
		}
		if err != nil {
			return err
		}
	}
}

// end checks the page as a whole. size is its length in bytes, and array has its entries.
func (p *listPage[T, E]) end(size int, array json.RawMessage) error {
	repeated, err := p.list.add(size, p.cursor, array, &p.last)
	if err != nil || repeated {
		p.entries = nil
		return err
	}
	for _, entry := range p.invalid {
		p.list.skip(entry)
	}
	switch kind := jsonscan.KindOf(p.cursor); {
	case kind == jsonscan.String:
		p.next = new(jsonscan.Unquote(p.cursor))
	case p.cursor != nil && kind != jsonscan.Null:
		p.err = fmt.Errorf("the server's result: nextCursor must be a string, not %v", kind)
	}
	return nil
}

// decodeEntries decodes the array that s is at.
func (p *listPage[T, E]) decodeEntries(s *jsonscan.Scanner) error {
	if err := s.EnterArray(); err != nil {
		return fmt.Errorf("%s: %w", p.member, err)
	}
	for first := true; ; first = false {
		more, err := s.Element(first)
		if err != nil || !more {
			return err
		}
		p.list.entries++
		if err := p.list.session.opts.Limits.CheckCount(p.list.kind, p.list.entries); err != nil {
			return err
		}
		if err := p.decodeEntry(s); err != nil {
			return err
		}
	}
}

// decodeEntry decodes the value that s is at. The error is a *[jsonscan.SyntaxError].
func (p *listPage[T, E]) decodeEntry(s *jsonscan.Scanner) error {
	start, n := *s, len(p.entries)
	p.entries = append(p.entries, *new(T))
	if p.field != nil && p.decodeMembers(s, &p.entries[n]) {
		return nil
	}
	*s = start
	definition, err := s.Value()
	if err != nil {
		return err
	}
	p.entries[n] = *new(T)
	if err = p.list.session.opts.Limits.CheckEntry(p.list.kind, definition); err == nil {
		err = E(&p.entries[n]).UnmarshalJSON(definition)
	}
	if err != nil {
		p.entries = p.entries[:n]
		p.invalid = append(p.invalid, invalidEntry{definition, err})
	}
	return nil
}

// decodeMembers decodes the object that s is at. It returns false, and decodes only a part, if the object is
// invalid or exceeds a limit.
func (p *listPage[T, E]) decodeMembers(s *jsonscan.Scanner, entry *T) bool {
	limits, kind, start := &p.list.session.opts.Limits, p.list.kind, s.Offset()
	p.keys.Reset()
	p.rest = append(p.rest[:0], '{')
	if s.EnterObject() != nil {
		return false
	}
	for first := true; ; first = false {
		key, more, err := s.Member(first)
		if err != nil {
			return false
		}
		if !more {
			break
		}
		value, err := s.UniqueValue()
		if err != nil || p.keys.Add(key, s.KeyOffset()) != nil || limits.checkMember(kind, key, value) != nil {
			return false
		}
		switch field := p.field(entry, key).(type) {
		case *string:
			if jsonscan.KindOf(value) == jsonscan.String {
				*field = jsonscan.Unquote(value)
				continue
			}
		case *json.RawMessage:
			if jsonscan.KindOf(value) != jsonscan.Null {
				*field = bytes.Clone(value)
				continue
			}
		}
		if len(p.rest) > len("{") {
			p.rest = append(p.rest, ',')
		}
		p.rest = append(append(append(p.rest, key...), ':'), value...)
	}
	if s.Offset()-start > limits.EntryBytes {
		return false
	}
	return len(p.rest) == len("{") || E(entry).UnmarshalJSON(append(p.rest, '}')) == nil
}

// A listReader counts the pages and entries of a list that is read.
type listReader struct {
	session      *Session
	kind         mcp.Kind
	method       string
	pages, bytes int
	entries      int
	skipped      int // entries that are invalid
	cursors      era.Cursors
}

// add adds a page. It returns an error if the list exceeds a limit, and true if the page is the same as one
// before. It sets last if the list ends with this page, whatever its cursor.
func (r *listReader) add(size int, cursor, array json.RawMessage, last *bool) (repeated bool, err error) {
	r.pages++
	r.bytes += size
	end := r.cursors.Add(cursor, array)
	if end != "" {
		r.session.opts.Logger.Warn(end, "method", r.method)
		*last = true
	}
	return end == era.RepeatedPage, r.session.opts.Limits.CheckPage(r.pages, r.bytes, cursor)
}

// maxSkipWarnings bounds the warnings about the entries of one list.
const maxSkipWarnings = 10

// skip logs that an entry is skipped.
func (r *listReader) skip(entry invalidEntry) {
	if r.skipped++; r.skipped > maxSkipWarnings {
		return
	}
	name, _ := jsonscan.Find(entry.definition, nameMember(r.kind))
	r.session.opts.Logger.Warn("an invalid entry of a list was skipped", "method", r.method,
		"entry", peertext.Cut(string(name), maxQuoted), "error", peertext.Cut(entry.reason.Error(), maxQuoted))
}

// end logs how many entries were skipped without a warning of their own.
func (r *listReader) end() {
	if more := r.skipped - maxSkipWarnings; more > 0 {
		r.session.opts.Logger.Warn("more invalid entries of a list were skipped", "method", r.method, "count", more)
	}
}

// These functions are the field of [listPage] for the kinds of which servers have many.

func toolField(t *mcp.Tool, key []byte) any {
	switch string(key) {
	case `"name"`:
		return &t.Name
	case `"title"`:
		return &t.Title
	case `"description"`:
		return &t.Description
	case `"inputSchema"`:
		return &t.InputSchema
	case `"outputSchema"`:
		return &t.OutputSchema
	}
	return nil
}

func promptField(p *mcp.Prompt, key []byte) any {
	switch string(key) {
	case `"name"`:
		return &p.Name
	case `"title"`:
		return &p.Title
	case `"description"`:
		return &p.Description
	}
	return nil
}

func resourceField(r *mcp.Resource, key []byte) any {
	switch string(key) {
	case `"uri"`:
		return &r.URI
	case `"name"`:
		return &r.Name
	case `"title"`:
		return &r.Title
	case `"description"`:
		return &r.Description
	case `"mimeType"`:
		return &r.MIMEType
	}
	return nil
}

func templateField(t *mcp.ResourceTemplate, key []byte) any {
	switch string(key) {
	case `"uriTemplate"`:
		return &t.URITemplate
	case `"name"`:
		return &t.Name
	case `"title"`:
		return &t.Title
	case `"description"`:
		return &t.Description
	case `"mimeType"`:
		return &t.MIMEType
	}
	return nil
}

// nameMember returns the member that identifies an entry.
func nameMember(kind mcp.Kind) string {
	switch kind {
	case mcp.KindResource, mcp.KindSkill:
		return "uri"
	case mcp.KindResourceTemplate:
		return "uriTemplate"
	default:
		return "name"
	}
}

// maxQuoted bounds a text of the server in errors and logs, in bytes.
const maxQuoted = 256
