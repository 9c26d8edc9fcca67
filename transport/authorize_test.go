package transport_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

func TestAuthorize(t *testing.T) {
	req, no := &jsonrpc.Request{Method: "m"}, errors.New("no")
	if err := transport.Authorize(t.Context(), req); err != nil {
		t.Errorf("without an authorizer: %v", err)
	}
	ctx := transport.WithAuthorizer(t.Context(), func(_ context.Context, got *jsonrpc.Request) error {
		if got != req {
			t.Errorf("the authorizer got %v", got)
		}
		return no
	})
	if err := transport.Authorize(ctx, req); !errors.Is(err, no) {
		t.Errorf("with an authorizer: %v", err)
	}

	other := errors.New("other")
	before := func(context.Context, *jsonrpc.Request) error { return other }
	if err := transport.AuthorizeBefore(before)(ctx, req); !errors.Is(err, no) {
		t.Errorf("with both: %v", err)
	}
	if err := transport.AuthorizeBefore(before)(t.Context(), req); !errors.Is(err, other) {
		t.Errorf("with the other function only: %v", err)
	}
	if err := transport.AuthorizeBefore(nil)(ctx, req); !errors.Is(err, no) {
		t.Errorf("without another function: %v", err)
	}
	if err := transport.AuthorizeBefore(nil)(t.Context(), req); err != nil {
		t.Errorf("without both: %v", err)
	}
}

func TestScopeError(t *testing.T) {
	err := error(&transport.ScopeError{Scopes: []string{"a", `b"`}, Challenge: "Bearer"})
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != jsonrpc.InternalError || string(e.Data) != `{"type":"FORBIDDEN","guard":"scope","scopes":["a","b\""]}` || e.Message != err.Error() {
		t.Errorf("the error for the client is %+v", e)
	}
}
