package jsonrpc

import (
	"bytes"
	"sync"
)

// A batch collects the answers to the calls that came in one array; they go
// out in one array when the last has settled.
type batch struct {
	mu      sync.Mutex
	waiting int
	answers [][]byte
}

// receiveBatch takes messages that came as one array, if the handler's protocol
// has batches. JSON-RPC 2.0, section 6; MCP has them in version 2025-03-26 only.
func (c *Conn) receiveBatch(data []byte) {
	items, err := SplitBatch(data, c.opts.MaxBatch)
	if err != nil {
		c.refuse(err)
		return
	}
	h, ok := c.handler.(BatchHandler)
	if !ok {
		c.refuse(refuseBatch("batches are not supported here: send one message at a time"))
		return
	}
	var (
		b    batch
		msgs []Message
		bad  []error
	)
	for _, item := range items {
		msg, err := Decode(item)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		if req, ok := msg.(*Request); ok && !req.IsNotification() {
			b.waiting++
		}
		msgs = append(msgs, msg)
	}
	if err := h.AcceptBatch(msgs); err != nil {
		c.refuse(&DecodeError{Err: errorToSend(err)})
		return
	}
	b.waiting += len(bad)
	for _, err := range bad {
		var answer []byte
		if resp := c.refusal(err); resp != nil {
			answer = appendErrorResponse(nil, resp.ID, resp.Error)
		}
		c.answerInBatch(&b, answer)
	}
	for _, msg := range msgs {
		c.dispatch(msg, &b)
	}
}

// answerInBatch takes one answer, nil for a call that gets none, and sends the
// array once it is complete.
func (c *Conn) answerInBatch(b *batch, answer []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer != nil {
		b.answers = append(b.answers, bytes.Clone(answer))
	}
	b.waiting--
	if b.waiting > 0 || len(b.answers) == 0 {
		return
	}
	array := append([]byte{'['}, bytes.Join(b.answers, []byte{','})...)
	c.writeAnswer(append(array, ']'))
}
