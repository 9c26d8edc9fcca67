package era

import (
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

func TestEventQueue(t *testing.T) {
	cancelled := false
	q := NewEventQueue(2, 10, func() { cancelled = true })
	note := func(text string) *jsonrpc.Request { return &jsonrpc.Request{Method: "m", Params: []byte(text)} }
	text := []byte("a")
	q.Add(&jsonrpc.Request{Method: "m", Params: text})
	text[0] = 'x'
	waittest.Receive(t, "an event in the queue", q.Ready())
	if waiting, ended, err := q.Take(); len(waiting) != 1 || string(waiting[0].Params) != "a" || ended || err != nil {
		t.Errorf("took %v, %v, %v", waiting, ended, err)
	}
	q.Add(note("a notification that is larger than the limit"))
	if waiting, _, _ := q.Take(); len(waiting) != 1 || cancelled {
		t.Error("a large notification is refused by an empty queue")
	}
	q.Add(note("1"))
	q.Add(note("2"))
	q.Add(note("3"))
	q.Add(note("4"))
	if !cancelled {
		t.Error("a full queue does not cancel the stream")
	}
	q.End(errors.New("cancelled"))
	if waiting, ended, err := q.Take(); len(waiting) != 2 || !ended || err != nil {
		t.Errorf("at the end: %v, %v, %v", waiting, ended, err)
	}
	failed := NewEventQueue(1, 1, func() {})
	failed.End(jsonrpc.ErrClosed)
	if _, ended, err := failed.Take(); !ended || !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("a failed stream: %v, %v", ended, err)
	}
}
