package bridge_test

import (
	"context"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A program may call tools what it likes.
func TestNameOption(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "one", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "greet"}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "hello", nil
	})
	b, err := bridge.New(&bridge.Options{Name: func(alias, name string) string { return alias + "_" + name }},
		bridge.Config{Alias: "one", Dialer: transport.Pipe(s), Required: true})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := b.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if e := b.Catalog().Lookup(mcp.KindTool, "one_greet"); e == nil || e.Origin.Server != "one" || e.Origin.Name != "greet" {
		t.Errorf("of %q one is %+v", names(b.Catalog(), mcp.KindTool), e)
	}
	if result, err := b.CallTool(t.Context(), "one_greet", nil); err != nil || result.IsError {
		t.Error(result, err)
	}
}
