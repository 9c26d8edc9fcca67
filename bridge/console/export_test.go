package console

import (
	"context"
	"testing"

	"github.com/dovetail-go/dovetail/policy"
)

// Rows returns the rows as pages get them.
func (r *Recorder) Rows() []shownRow {
	rows, _ := r.changedSince(0)
	return rows
}

// Call returns a call as operators get it.
func (r *Recorder) Call(t testing.TB, id uint64) *shownCall {
	t.Helper()
	call, _, _, err := r.call(id, false)
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// WhatIf returns what a policy would have decided on the kept calls.
func (r *Recorder) WhatIf(text string) *verdict { return r.whatIf([]byte(text), policy.Compile) }

// Cancel cancels a call as operators do.
func (c *Console) Cancel(ctx context.Context, id uint64) error { return c.cancelCall(ctx, id) }

// Events returns what has happened, as operators get it.
func (r *Recorder) Events() []detailedEvent {
	events, _ := eventsSince(r, 0, (*event).detailed)
	return events
}

// ShownMessages are the messages of a call.
type ShownMessages = shownMessages

// Messages returns the messages of a call as operators get them.
func (r *Recorder) Messages(t testing.TB, id uint64) *ShownMessages {
	t.Helper()
	shown, err := r.showMessages(id, false)
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// Save returns the transcript of a call as operators get it.
func (r *Recorder) Save(id uint64, reveal bool) (string, error) {
	saved, err := r.save(id, reveal)
	if err != nil {
		return "", err
	}
	return saved.Text, nil
}

// ContentSize returns how many bytes of contents are kept.
func (r *Recorder) ContentSize() int { return r.kept().Bytes }

// Web has the page's own files.
var Web = web

// Handshakes returns how many handshakes are kept, and how many bytes they count.
func (r *Recorder) Handshakes() (n, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.handshakes), r.connections.size
}
