package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestServeErrors: programs that call Serve can tell refusals and failures of this server from
// errors that a function has chosen.
func TestServeErrors(t *testing.T) {
	refuses := errors.New("not today")
	entry := func(name string, err error, guards ...mcp.Guard) *server.Entry {
		e := &server.Entry{
			Target: mcp.Target{Kind: mcp.KindTool, Name: name, Definition: mcp.NewDefinition(json.RawMessage(`{"name":"` + name + `"}`))},
			Handle: func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, err },
		}
		return e.Wrap(guards, nil)
	}
	s := newServer(&server.Options{Logger: quiet()})
	if err := s.Replace(
		entry("broken", errors.New("canary")),
		entry("forged", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "internal error, reference X"}),
		entry("refused", nil, mcp.Guard{Name: "g", Check: func(context.Context, *mcp.Call) error { return refuses }}),
		entry("hidden", nil, mcp.Guard{Name: "g", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return false }}),
	); err != nil {
		t.Fatal(err)
	}
	serve := func(name string) (wire *jsonrpc.Error, raw error) {
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(`{"name":"`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		call := mcp.NewCall(request, &mcp.Caller{}, nil)
		_, err = s.Serve(t.Context(), &call)
		wire, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok {
			t.Fatalf("%s: there is no error for clients in %v", name, err)
		}
		return wire, err
	}
	wire, err := serve("broken")
	internal, ok := errors.AsType[*server.InternalError](err)
	if !ok || wire.Message != "internal error, reference "+internal.Reference || strings.Contains(err.Error(), "canary") {
		t.Errorf("a failure is %v, and for clients %v", err, wire)
	}
	if _, err := serve("forged"); errors.As(err, &internal) {
		t.Errorf("the error of a function is one of the server: %v", err)
	}
	wire, err = serve("refused")
	refused, ok := errors.AsType[*server.RefusedError](err)
	if !ok || refused.Guard != "g" || refused.Hidden || !errors.Is(err, refuses) || strings.Contains(wire.Message, "not today") {
		t.Errorf("a refusal is %v, and for clients %v", err, wire)
	}
	wire, err = serve("hidden")
	if refused, ok := errors.AsType[*server.RefusedError](err); !ok || !refused.Hidden || wire.Message != `unknown tool: "hidden"` {
		t.Errorf("a hidden tool is %v, and for clients %v", err, wire)
	}
}

// TestUnlistedEntryWithoutDefinition is mounted as any other.
func TestUnlistedEntryWithoutDefinition(t *testing.T) {
	m := newMarket()
	unlisted := m.stalls("unlisted")[0]
	unlisted.Definition = nil
	m.offer.Store(server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
		if kind != mcp.KindTool || name != "unlisted" {
			return nil, nil
		}
		return unlisted, nil
	}}))
	for _, prefix := range []string{"", "p_"} {
		s := newServer(&server.Options{Logger: quiet()})
		mountProvider(t, s, m, prefix)
		session := connect(t, s, 0)
		if names := toolNames(t, session); len(names) > 0 {
			t.Errorf("listed are %q", names)
		}
		if _, err := raw(t, session, mcp.MethodToolsCall, `{"name":"`+prefix+`unlisted"}`); err != nil {
			t.Errorf("with the prefix %q: %v", prefix, err)
		}
	}
}
