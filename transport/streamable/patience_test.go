package streamable_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A stuckWriter takes nothing until it is let go, or an hour has passed.
type stuckWriter struct {
	*httptest.ResponseRecorder
	release <-chan struct{}
}

func (w stuckWriter) Write(p []byte) (int, error) {
	select {
	case <-w.release:
	case <-time.After(time.Hour):
	}
	return w.ResponseRecorder.Write(p)
}

// Who tells a client that takes nothing waits no longer than his context does.
func TestNotificationsWaitAsLongAsTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
		server.AddTool(s, server.Tool{Name: "storm"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			defer close(release)
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			begun := time.Now()
			for i := range 1000 {
				if err := r.Progress(ctx, float64(i+1), 1000, strings.Repeat("x", 1<<10)); err != nil {
					if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 5*time.Second {
						t.Errorf("after %v: %v", time.Since(begun), err)
					}
					return "", nil
				}
			}
			t.Error("a megabyte was taken for a client that takes nothing")
			return "", nil
		})
		endpoint := streamable.Handler(s, nil)
		defer endpoint.Close()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"storm","arguments":{},`+modernMeta+`}}`))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "storm",
		} {
			req.Header.Set(name, value)
		}
		w := stuckWriter{httptest.NewRecorder(), release}
		endpoint.ServeHTTP(w, req)
		if !strings.Contains(w.Body.String(), `"progress":1,`) {
			t.Errorf("the client got %d: %.300s", w.Code, w.Body.String())
		}
	})
}
