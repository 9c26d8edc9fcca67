package server_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestShutdown: what runs may finish, nothing new begins, subscriptions end.
func TestShutdown(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "slow"}, func(_ context.Context, _ *server.Request, in struct {
			Seconds int `json:"seconds"`
		}) (string, error) {
			<-time.After(time.Duration(in.Seconds) * time.Second)
			return "finished", nil
		})
		session := connectInMemory(t, s, &client.Options{Era: era})
		sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan *mcp.CallToolResult, 2)
		for _, seconds := range []string{"20", "30"} {
			go func() { results <- call(t, session, "slow", `{"seconds":`+seconds+`}`) }()
		}
		synctest.Wait()

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while a call runs, shutting down gives %v", err)
		}
		_, err = session.CallTool(t.Context(), "slow", jsonRaw(`{"seconds":1}`), nil)
		wantCode(t, err, jsonrpc.InternalError)
		synctest.Wait()
		if era == client.Modern {
			select {
			case <-sub.Done():
			default:
				t.Error("a subscription outlives the server")
			}
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("when all has finished, shutting down gives %v", err)
		}
		synctest.Wait()
		if len(results) != 2 {
			t.Errorf("%d of two calls that ran have finished", len(results))
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("shutting down again gives %v", err)
		}
	})
}

// TestIdleShutdown: a server that does nothing is down at once, used or not.
func TestIdleShutdown(t *testing.T) {
	if err := newServer(nil).Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
