package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
// limits of the session. Pages are of type R, and entries of type T.
func pages[R, T any, P unmarshaler[R], E unmarshaler[T]](ctx context.Context, s *Session, opts *CallOptions, kind mcp.Kind, method, member string, items func(P) ([]T, *string)) iter.Seq2[*T, error] {
	return pagesOf[R, T, P, E](ctx, s, opts, listOf{kind: kind, method: method, member: member}, items)
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
func pagesOf[R, T any, P unmarshaler[R], E unmarshaler[T]](ctx context.Context, s *Session, opts *CallOptions, list listOf, items func(P) ([]T, *string)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		method := list.method
		meta, err := opts.meta()
		if err != nil {
			yield(nil, notSent(method, err))
			return
		}
		params, about := list.params(meta, nil)
		reader := &listReader{session: s, kind: list.kind, method: method, member: list.member}
		defer reader.end()
		for {
			page := listPage[R, T, P, E]{list: reader, items: items}
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
			if page.next == nil || reader.ended {
				return
			}
			params, about = list.params(meta, page.next)
		}
	}
}

// A listPage is a page of a list. Its Unmarshaler skips invalid entries.
type listPage[R, T any, P unmarshaler[R], E unmarshaler[T]] struct {
	list    *listReader
	items   func(P) ([]T, *string)
	entries []T
	next    *string // the cursor of the next page, or nil
	err     error   // why there is no next page, or nil
}

// UnmarshalJSON checks and decodes a page. Unless an entry is invalid, it decodes the page as a
// whole, which is faster.
func (p *listPage[R, T, P, E]) UnmarshalJSON(page []byte) error {
	if err := p.list.check(page); err != nil || p.list.isRepeated {
		return err
	}
	if !p.list.hasInvalid {
		whole := P(new(R))
		if whole.UnmarshalJSON(page) == nil {
			p.entries, p.next = p.items(whole)
			return nil
		}
	}
	switch kind := jsonscan.KindOf(p.list.cursor); {
	case kind == jsonscan.String:
		p.next = new(jsonscan.Unquote(p.list.cursor))
	case p.list.cursor != nil && kind != jsonscan.Null:
		p.err = fmt.Errorf("the server's result: nextCursor must be a string, not %v", kind)
	}
	return p.list.each(func(definition json.RawMessage) error {
		entry := new(T)
		if err := E(entry).UnmarshalJSON(definition); err != nil {
			return err
		}
		p.entries = append(p.entries, *entry)
		return nil
	})
}

// A listReader counts the pages of a list that is read, and checks them.
type listReader struct {
	session        *Session
	kind           mcp.Kind
	method, member string
	pages, bytes   int
	entries        int
	skipped        int // entries that are invalid

	// These are set by check.
	array      json.RawMessage // the entries of the page, or nil
	cursor     json.RawMessage // of the next page, or nil
	hasInvalid bool            // an entry is no object, or exceeds a limit
	isRepeated bool            // the page is the same as one before; array is nil
	ended      bool            // the list ends with this page, whatever its cursor
	cursors    era.Cursors
}

// check returns an error if a page exceeds a limit or has no list.
func (r *listReader) check(page json.RawMessage) error {
	r.pages++
	r.bytes += len(page)
	r.array, r.cursor, r.hasInvalid = nil, nil, false
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
			r.follow()
			return r.session.opts.Limits.CheckPage(r.pages, r.bytes, r.cursor)
		case jsonscan.KeyIs(key, r.member) && s.Kind() != jsonscan.Null:
			err = r.checkEntries(&s, page)
		case jsonscan.KeyIs(key, "nextCursor"):
			r.cursor, err = s.Value()
		default:
			_, err = s.Value()
		}
		if err != nil {
			return err
		}
	}
}

// follow sets ended, and drops the entries of a page that the server repeats.
func (r *listReader) follow() {
	end := r.cursors.Add(r.cursor, r.array)
	if end == "" {
		return
	}
	r.session.opts.Logger.Warn(end, "method", r.method)
	r.ended = true
	if r.isRepeated = end == era.RepeatedPage; r.isRepeated {
		r.array = nil
	}
}

// checkEntries reads the array that s is at.
func (r *listReader) checkEntries(s *jsonscan.Scanner, page json.RawMessage) error {
	limits := &r.session.opts.Limits
	start := s.Offset()
	if err := s.EnterArray(); err != nil {
		return fmt.Errorf("%s: %w", r.member, err)
	}
	for first := true; ; first = false {
		more, err := s.Element(first)
		if err != nil {
			return err
		}
		if !more {
			r.array = bytes.TrimSpace(page[start:s.Offset()])
			return nil
		}
		r.entries++
		if err := limits.CheckCount(r.kind, r.entries); err != nil {
			return err
		}
		if s.Kind() != jsonscan.Object {
			r.hasInvalid = true
			_, err = s.Value()
		} else if err = limits.checkEntry(r.kind, s); isLimit(err) {
			r.hasInvalid, err = true, nil
		}
		if err != nil {
			return err
		}
	}
}

func isLimit(err error) bool {
	_, ok := errors.AsType[*mcp.LimitError](err)
	return ok
}

// each calls decode for the entries of the page that are within the limits. It skips entries for which decode returns
// an error.
func (r *listReader) each(decode func(definition json.RawMessage) error) error {
	if r.array == nil {
		return nil
	}
	s := jsonscan.New(r.array)
	if err := s.EnterArray(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.Element(first)
		if err != nil || !more {
			return err
		}
		definition, err := s.Value()
		if err != nil {
			return err
		}
		if err = r.session.opts.Limits.CheckEntry(r.kind, definition); err == nil {
			err = decode(definition)
		}
		if err != nil {
			r.skip(definition, err)
		}
	}
}

// maxSkipWarnings bounds the warnings about the entries of one list.
const maxSkipWarnings = 10

// skip logs that an entry is skipped.
func (r *listReader) skip(definition json.RawMessage, reason error) {
	if r.skipped++; r.skipped > maxSkipWarnings {
		return
	}
	name, _ := jsonscan.Find(definition, nameMember(r.kind))
	r.session.opts.Logger.Warn("an invalid entry of a list was skipped", "method", r.method,
		"entry", peertext.Cut(string(name), maxQuoted), "error", peertext.Cut(reason.Error(), maxQuoted))
}

// end logs how many entries were skipped without a warning of their own.
func (r *listReader) end() {
	if more := r.skipped - maxSkipWarnings; more > 0 {
		r.session.opts.Logger.Warn("more invalid entries of a list were skipped", "method", r.method, "count", more)
	}
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
