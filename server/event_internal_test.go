package server

import (
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// The streams of a principal are limited, and those of all together.
func TestQuotaOfStreams(t *testing.T) {
	q := &quotaOfStreams{}
	exhausted := func(err error) bool {
		e, ok := errors.AsType[*jsonrpc.Error](err)
		return ok && e.Code == mcp.CodeResourceExhausted && len(e.Data) > 0
	}
	for range maxStreamsPerPrincipal {
		if err := q.acquire("alice"); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.acquire("alice"); !exhausted(err) {
		t.Errorf("one more of a principal: %v", err)
	}
	for range maxEventStreams - maxStreamsPerPrincipal {
		if err := q.acquire(""); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.acquire("bob"); !exhausted(err) {
		t.Errorf("one more of all: %v", err)
	}
	q.release("alice")
	if err := q.acquire("bob"); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}
