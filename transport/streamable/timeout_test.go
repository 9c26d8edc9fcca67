package streamable_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Progress extends the timeout of a call over HTTP.
func TestProgressExtendsTheTimeout(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "slow", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	server.AddTool(s, server.Tool{Name: "work"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		ticker := time.NewTicker(25 * time.Millisecond)
		defer ticker.Stop()
		for i := range 30 {
			select {
			case <-ticker.C:
				_ = r.Progress(ctx, float64(i+1), 30, "")
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return "done", nil
	})
	handler := streamable.Handler(s, nil)
	web := httptest.NewServer(handler)
	defer web.Close()
	defer handler.Close()
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session, err := client.Connect(t.Context(), streamable.Dial(web.URL, &streamable.DialOptions{
			Conn: jsonrpc.Options{CallTimeout: 400 * time.Millisecond},
		}), &client.Options{Era: era})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if _, err := session.CallTool(t.Context(), "work", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}}); err != nil {
			t.Errorf("%v: %v", era, err)
		}
		if _, err := session.CallTool(t.Context(), "work", nil, nil); err == nil {
			t.Errorf("%v: a call without progress does not end", era)
		}
	}
}
