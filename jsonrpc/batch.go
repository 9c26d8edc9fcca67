package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// maxBatch is the maximum number of messages in a batch.
const maxBatch = 64

// isBatch reports whether a text is an array. It checks the first byte after a byte order mark that is
// not white space.
func isBatch(data []byte) bool { return jsonscan.KindOf(jsonscan.TrimBOM(data)) == jsonscan.Array }

// SplitBatch returns the elements of a batch, which are slices of data and not decoded. It
// returns nil, nil if data does not begin with an array, and so is no batch. The error is a
// *[DecodeError]: [ParseError] for invalid JSON, and [InvalidRequest] for an empty array or
// one of more than 64 elements. JSON-RPC 2.0, section 6.
func SplitBatch(data []byte) ([]json.RawMessage, error) {
	if !isBatch(data) {
		return nil, nil
	}
	items, err := elements(jsonscan.TrimBOM(data))
	switch {
	case err != nil:
		return nil, &DecodeError{Err: &Error{Code: ParseError, Message: err.Error()}}
	case len(items) == 0:
		return nil, invalidRequest("a batch must not be empty")
	case len(items) > maxBatch:
		return nil, invalidRequest("a batch may hold at most %d messages", maxBatch)
	}
	return items, nil
}

// elements returns the elements of an array. It stops after maxBatch+1.
func elements(data []byte) (items []json.RawMessage, err error) {
	s := jsonscan.New(data)
	if err := s.EnterArray(); err != nil {
		return nil, err
	}
	for len(items) <= maxBatch {
		ok, err := s.Element(len(items) == 0)
		if err != nil {
			return nil, err
		}
		if !ok {
			return items, s.End()
		}
		item, err := s.Value()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func invalidRequest(format string, args ...any) error {
	return &DecodeError{Err: &Error{Code: InvalidRequest, Message: fmt.Sprintf(format, args...)}}
}

// A batch collects the responses to the calls of one array. They are sent in one array when
// the last call has been answered.
type batch struct {
	mu        sync.Mutex
	pending   int
	responses [][]byte
}

// receiveBatch handles a batch if the handler accepts it.
// JSON-RPC 2.0, section 6; MCP has batches in version 2025-03-26 only.
func (c *Conn) receiveBatch(o origin, data []byte) {
	items, err := SplitBatch(data)
	if err != nil {
		c.refuse(o.to, err)
		return
	}
	h, ok := c.handler.(SessionHandler)
	if !ok {
		c.refuse(o.to, invalidRequest("batches are not supported here: send one message at a time"))
		return
	}
	var (
		b         batch
		msgs      []Message
		malformed []error
	)
	for _, item := range items {
		msg, err := Decode(item)
		if err != nil {
			malformed = append(malformed, err)
			continue
		}
		if req, ok := msg.(*Request); ok && !req.IsNotification() {
			b.pending++
		}
		msgs = append(msgs, msg)
	}
	if err := h.AcceptBatch(msgs); err != nil {
		c.refuse(o.to, &DecodeError{Err: errorToSend(err)})
		return
	}
	b.pending += len(malformed)
	for _, err := range malformed {
		var response []byte
		if resp := c.refusal(err); resp != nil {
			response = appendErrorResponse(nil, resp.ID, resp.Error)
		}
		c.addToBatch(&b, o.to, response)
	}
	for _, msg := range msgs {
		c.dispatch(o, msg, &b)
	}
}

// addToBatch adds one response, nil for a call without one, and sends the array if it is
// complete. An empty array is not sent.
func (c *Conn) addToBatch(b *batch, to Replier, response []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if response != nil {
		b.responses = append(b.responses, bytes.Clone(response))
	}
	b.pending--
	switch {
	case b.pending > 0:
		return
	case len(b.responses) == 0:
		c.reply(to, nil)
		return
	}
	array := append([]byte{'['}, bytes.Join(b.responses, []byte{','})...)
	c.reply(to, append(array, ']'))
}
