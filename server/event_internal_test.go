package server

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// The streams of one principal, and all streams together, are limited.
func TestLimitsOfStreams(t *testing.T) {
	s := New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	acquire := func(principal string, count int) {
		t.Helper()
		for range count {
			if err := s.eventStreams.Acquire(quota.HolderOf(principal, "")); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused := func(principal string, most int) {
		t.Helper()
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodEventsStream, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		call := mcp.NewCall(request, &mcp.Caller{Principal: principal}, nil)
		_, err = s.streamEvent(t.Context(), &call, nil)
		e, ok := errors.AsType[*jsonrpc.Error](err)
		if want := fmt.Sprintf(`{"limit":"streams","max":%d}`, most); !ok || e.Code != mcp.CodeResourceExhausted || string(e.Data) != want {
			t.Errorf("one more of %q: %v, want %s", principal, err, want)
		}
	}
	acquire("alice", maxStreamsPerPrincipal)
	refused("alice", maxStreamsPerPrincipal)
	acquire("", maxEventStreams-maxStreamsPerPrincipal)
	refused("bob", maxEventStreams)
	s.eventStreams.Release(quota.HolderOf("alice", ""))
	acquire("bob", 1)
}
