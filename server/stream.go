package server

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// AddStream registers a function as a tool that gives its result piece by piece.
// Each chunk goes to the caller at once, if the caller wants to know how the call gets
// on (a client does so with its Stream): as progress 0, 1, 2, … whose message is the
// chunk's JSON (since 2025-03-26). What reduce makes of all chunks is the tool's
// result, as in [AddTool]; [JoinText] and [LastChunk] are often what is needed. It ranges over
// them once at most. The function waits while the caller is slow.
//
// An error ends the stream, and is the result; chunks that were sent stay sent. For
// that reason a stream may ask its caller ([Elicit]) only before its first chunk. It
// panics, naming the place, when the tool cannot be registered.
func AddStream[In, Chunk, Out any](s *Server, tool Tool, fn func(ctx context.Context, r *Request, in In) iter.Seq2[Chunk, error], reduce func(iter.Seq[Chunk]) Out) {
	s.mustAdd(NewStream(tool, fn, reduce))
}

// NewStream checks and compiles a streaming tool for [Server.Replace].
func NewStream[In, Chunk, Out any](tool Tool, fn func(ctx context.Context, r *Request, in In) iter.Seq2[Chunk, error], reduce func(iter.Seq[Chunk]) Out) (*Entry, error) {
	return NewTool(tool, func(ctx context.Context, r *Request, in In) (Out, error) {
		var failure error
		reduced := false
		out := reduce(func(yield func(Chunk) bool) {
			if reduced {
				panic("server.AddStream: reduce ranges over the chunks again, which are gone")
			}
			reduced = true
			failure = forward(ctx, r, fn(ctx, r, in), yield)
		})
		return out, failure
	})
}

var errAskedLate = errors.New("a streaming tool can ask only before its first chunk: what has been sent cannot be sent again")

// forward sends chunks to the caller, and hands them on.
func forward[Chunk any](ctx context.Context, r *Request, chunks iter.Seq2[Chunk, error], yield func(Chunk) bool) error {
	sent := 0
	for chunk, err := range chunks {
		if _, asks := mcp.AsInputRequired(err); asks && sent > 0 {
			return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: errAskedLate.Error()}
		}
		if err != nil {
			return err
		}
		if err := r.sendChunk(ctx, sent, chunk); err != nil {
			return err
		}
		sent++
		if !yield(chunk) {
			return nil
		}
	}
	return nil
}

func (r *Request) sendChunk(ctx context.Context, index int, chunk any) error {
	if r.Meta(mcp.MetaProgressToken) == nil {
		return nil
	}
	text, err := encode(chunk)
	if err != nil {
		return err
	}
	return r.Progress(ctx, float64(index), 0, string(text))
}

// JoinText reduces chunks of text to the whole text.
func JoinText(chunks iter.Seq[string]) string {
	var b strings.Builder
	for chunk := range chunks {
		b.WriteString(chunk)
	}
	return b.String()
}

// LastChunk reduces chunks to the last one, the zero value if there is none.
func LastChunk[T any](chunks iter.Seq[T]) T {
	var last T
	for last = range chunks {
	}
	return last
}
