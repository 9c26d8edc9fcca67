package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// fetch is call for results that may be cached.
func (s *Session) fetch(ctx context.Context, method, about string, params jsonrpc.Appender, result json.Unmarshaler, opts *CallOptions) error {
	key := cacheKey{method, about}
	if known, ok := s.cache.get(key); ok {
		return result.UnmarshalJSON(known)
	}
	before := s.cache.generation()
	resp, err := s.do(ctx, method, params, opts.progress())
	if err != nil {
		return err
	}
	if err := decode(method, resp, result); err != nil {
		return err
	}
	if ttl := ttlOf(resp); ttl > 0 {
		s.cache.put(key, bytes.Clone(resp.Result), ttl, before)
	}
	resp.Release() // what is decoded is a copy
	return nil
}

// call makes a call and decodes its result.
func (s *Session) call(ctx context.Context, method string, params jsonrpc.Appender, result json.Unmarshaler, opts *CallOptions) error {
	resp, err := s.do(ctx, method, params, opts.progress())
	if err != nil {
		return err
	}
	defer resp.Release() // what is decoded is a copy
	return decode(method, resp, result)
}

// decode decodes a result. One that is not as the protocol wants it was made by
// a call that was executed all the same.
func decode(method string, resp *jsonrpc.Response, result json.Unmarshaler) error {
	if kind := jsonscan.KindOf(resp.Result); kind != jsonscan.Object {
		return asCallError(method, fmt.Errorf("the server's result must be an object, not %v", kind))
	}
	if err := result.UnmarshalJSON(resp.Result); err != nil {
		return asCallError(method, fmt.Errorf("the server's result: %w", err))
	}
	return nil
}

// Call makes any call. params are an object, or nil for none; the result is as
// it came.
func (s *Session) Call(ctx context.Context, method string, params json.RawMessage, opts *CallOptions) (json.RawMessage, error) {
	meta, err := opts.meta()
	if err != nil {
		return nil, notSent(method, err)
	}
	if params == nil {
		params = json.RawMessage("{}")
	}
	encoded, err := checkedParams(params, meta)
	if err != nil {
		return nil, notSent(method, err)
	}
	resp, err := s.do(ctx, method, encoded, opts.progress())
	if err != nil {
		return nil, err
	}
	return resp.Result, nil
}

// notSent is a call that failed before it left.
func notSent(method string, err error) error {
	return &jsonrpc.CallError{Method: method, Delivery: jsonrpc.NotSent, Err: err}
}

var errCursorLoop = errors.New("the server gives the same cursor again and again")

// pages reads a list, page by page, and stops at a cursor that comes again and
// at [Options.MaxPages].
func pages[R any, T any, P interface {
	*R
	json.Unmarshaler
}](ctx context.Context, s *Session, method string, items func(P) ([]T, *string)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		params, about := &mcp.PaginatedParams{}, ""
		seen := make(map[string]bool)
		for range s.opts.MaxPages {
			page := P(new(R))
			if err := s.fetch(ctx, method, about, params, page, nil); err != nil {
				yield(nil, err)
				return
			}
			list, next := items(page)
			for i := range list {
				if !yield(&list[i], nil) {
					return
				}
			}
			if next == nil {
				return
			}
			if seen[*next] {
				yield(nil, asCallError(method, errCursorLoop))
				return
			}
			seen[*next] = true
			params, about = &mcp.PaginatedParams{Cursor: next}, "cursor "+*next
		}
		yield(nil, asCallError(method, fmt.Errorf("the list has more than %d pages", s.opts.MaxPages)))
	}
}
