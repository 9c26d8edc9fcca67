package sse_test

import (
	"errors"
	"net"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

const (
	notSent       = jsonrpc.NotSent
	maybeExecuted = jsonrpc.MaybeExecuted
	rejected      = jsonrpc.Rejected
)

var (
	errClosed = jsonrpc.ErrClosed
	raw1      = jsonrpc.Raw(`[1]`)
)

// failed checks that an error is a CallError with that delivery and reason.
func failed(t testing.TB, err error, delivery jsonrpc.Delivery, reason error) {
	t.Helper()
	failure, ok := errors.AsType[*jsonrpc.CallError](err)
	switch {
	case !ok:
		t.Errorf("the error is %v (%T), want a *jsonrpc.CallError", err, err)
	case failure.Delivery != delivery || reason != nil && !errors.Is(err, reason):
		t.Errorf("the error is %v, want %v and %q", err, reason, delivery)
	}
}

func isNotReached(err error) bool { return errors.Is(err, transport.ErrNotReached) }

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
