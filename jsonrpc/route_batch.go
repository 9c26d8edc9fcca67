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
func (r *Route) receiveBatch(data []byte) {
	items, err := SplitBatch(data, r.d.opts.MaxBatch)
	if err != nil {
		r.refuse(err)
		return
	}
	h, ok := r.d.handler.(BatchHandler)
	if !ok {
		r.refuse(refuseBatch("batches are not supported here: send one message at a time"))
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
		r.refuse(&DecodeError{Err: errorToSend(err)})
		return
	}
	b.waiting += len(bad)
	for _, err := range bad {
		var answer []byte
		if resp := r.refusal(err); resp != nil {
			answer = appendErrorResponse(nil, resp.ID, resp.Error)
		}
		r.answerInBatch(&b, answer)
	}
	for _, msg := range msgs {
		if call := r.dispatch(msg, &b); call != nil {
			r.d.run(call)
		}
	}
}

// answerInBatch takes one answer, nil for a call that gets none, and sends the
// array once it is complete. An empty one is none.
func (r *Route) answerInBatch(b *batch, answer []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer != nil {
		b.answers = append(b.answers, bytes.Clone(answer))
	}
	b.waiting--
	switch {
	case b.waiting > 0:
		return
	case len(b.answers) == 0:
		r.writeAnswer(nil)
		return
	}
	array := append([]byte{'['}, bytes.Join(b.answers, []byte{','})...)
	r.writeAnswer(append(array, ']'))
}
