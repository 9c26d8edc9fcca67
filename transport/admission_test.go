package transport_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

func TestAdmit(t *testing.T) {
	req, no := &jsonrpc.Request{Method: "m"}, errors.New("no")
	if err := transport.Admit(t.Context(), req); err != nil {
		t.Errorf("without an admission: %v", err)
	}
	ctx := transport.WithAdmission(t.Context(), func(_ context.Context, got *jsonrpc.Request) error {
		if got != req {
			t.Errorf("it is asked about %v", got)
		}
		return no
	})
	if err := transport.Admit(ctx, req); !errors.Is(err, no) {
		t.Errorf("with one: %v", err)
	}

	other := errors.New("other")
	before := func(context.Context, *jsonrpc.Request) error { return other }
	if err := transport.AdmitBefore(before)(ctx, req); !errors.Is(err, no) {
		t.Errorf("both: %v", err)
	}
	if err := transport.AdmitBefore(before)(t.Context(), req); !errors.Is(err, other) {
		t.Errorf("the one before: %v", err)
	}
	if err := transport.AdmitBefore(nil)(ctx, req); !errors.Is(err, no) {
		t.Errorf("none before: %v", err)
	}
	if err := transport.AdmitBefore(nil)(t.Context(), req); err != nil {
		t.Errorf("none at all: %v", err)
	}
}

func TestScopeError(t *testing.T) {
	err := error(&transport.ScopeError{Scopes: []string{"a", `b"`}, Challenge: "Bearer"})
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != jsonrpc.InternalError || string(e.Data) != `{"type":"FORBIDDEN","guard":"scope","scopes":["a","b\""]}` || e.Message != err.Error() {
		t.Errorf("the caller is told %+v", e)
	}
}
