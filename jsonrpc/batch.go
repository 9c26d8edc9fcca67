package jsonrpc

import (
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// IsBatch tells whether a text is an array rather than one message, by its
// first byte. JSON-RPC 2.0, section 6.
func IsBatch(data []byte) bool { return jsonscan.KindOf(data) == jsonscan.Array }

// SplitBatch returns the elements of a batch, slices of data that [Decode] has
// still to read. There may be at most limit of them,
// [DefaultMaxBatch] when limit is not positive. The error is a *[DecodeError]: [ParseError] for what is not
// JSON, [InvalidRequest] for what is no batch, an empty one, or a longer one.
func SplitBatch(data []byte, limit int) ([]json.RawMessage, error) {
	if limit <= 0 {
		limit = DefaultMaxBatch
	}
	if err := jsonscan.Valid(data); err != nil {
		return nil, &DecodeError{Err: &Error{Code: ParseError, Message: err.Error()}}
	}
	if kind := jsonscan.KindOf(data); kind != jsonscan.Array {
		return nil, refuseBatch("a batch must be an array, not %v", kind)
	}
	items, err := elements(data, limit)
	switch {
	case err != nil:
		return nil, err
	case len(items) == 0:
		return nil, refuseBatch("a batch must not be empty")
	}
	return items, nil
}

func elements(data []byte, limit int) ([]json.RawMessage, error) {
	var items []json.RawMessage
	s := jsonscan.New(data)
	if err := s.EnterArray(); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		ok, err := s.Element(first)
		if err != nil || !ok {
			return items, err
		}
		if len(items) == limit {
			return nil, refuseBatch("a batch may hold at most %d messages", limit)
		}
		item, err := s.Value()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
}

func refuseBatch(format string, args ...any) error {
	return &DecodeError{Err: &Error{Code: InvalidRequest, Message: fmt.Sprintf(format, args...)}}
}
