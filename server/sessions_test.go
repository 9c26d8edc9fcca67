package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestLogLevelsAreApart: what one client wants to hear changes nothing for another.
func TestLogLevelsAreApart(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "log"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			log := r.Logger("")
			log.Debug("debug")
			log.Warn("warning")
			log.Error("error")
			return "", nil
		})
		heard := map[mcp.LoggingLevel]*trace{}
		sessions := map[mcp.LoggingLevel]*client.Session{}
		for _, level := range []mcp.LoggingLevel{mcp.LevelDebug, mcp.LevelError, mcp.LevelWarning} {
			tr := &trace{}
			heard[level] = tr
			sessions[level] = connectInMemory(t, s, &client.Options{Era: era, LogLevel: level, Logged: func(_ context.Context, m *mcp.LoggingMessageParams) {
				tr.step(string(m.Level))
			}})
		}
		for _, session := range sessions {
			call(t, session, "log", `{}`)
		}
		synctest.Wait()
		for level, want := range map[mcp.LoggingLevel]string{mcp.LevelDebug: "debug warning error", mcp.LevelWarning: "warning error", mcp.LevelError: "error"} {
			if got := strings.Join(heard[level].take(), " "); got != want {
				t.Errorf("the client that wants %s hears %q, want %q", level, got, want)
			}
		}
	})
}

// TestSubscriptionsAreApart: each session has its own, and one that ends, or is closed
// with its session, takes none of the others with it.
func TestSubscriptionsAreApart(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		reads(s, server.Resource{URI: "app:r"}, "")
		var told [3]int
		var sessions [3]*client.Session
		var subscriptions [3]*client.Subscription
		for i := range sessions {
			sessions[i] = connectInMemory(t, s, &client.Options{Era: era, Changed: func(context.Context, mcp.Change) { told[i]++ }})
			var err error
			if subscriptions[i], err = sessions[i].Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"app:r"}}); err != nil {
				t.Fatal(err)
			}
		}
		wantTold := func(want [3]int) {
			t.Helper()
			s.ResourceUpdated("app:r")
			synctest.Wait()
			if told != want {
				t.Errorf("the clients are told %v times, want %v", told, want)
			}
		}
		wantTold([3]int{1, 1, 1})
		subscriptions[0].Close()
		synctest.Wait()
		wantTold([3]int{1, 2, 2})
		if err := sessions[1].Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantTold([3]int{1, 2, 3})
	})
}

// TestCallsAreApart: two clients whose calls have the same id can each cancel their own,
// and a slow call holds up no other on its connection.
func TestCallsAreApart(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "slow"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			select {
			case <-time.After(time.Hour):
				return "done", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
		returns(s, "quick", "yes")
		first, second := connectInMemory(t, s, &client.Options{Era: era}), connectInMemory(t, s, &client.Options{Era: era})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := first.CallTool(ctx, "slow", nil, nil); ended <- err }()
		patient, stop := context.WithTimeout(t.Context(), 2*time.Hour)
		defer stop()
		done := make(chan string, 1)
		go func() {
			result, err := second.CallTool(patient, "slow", nil, nil)
			if err != nil {
				t.Error(err)
				result = &mcp.CallToolResult{}
			}
			done <- texts(result)
		}()
		synctest.Wait()
		if got := texts(call(t, first, "quick", `{}`)); got != "yes" {
			t.Errorf("beside a slow call the tool says %q", got)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled call ends with %v", err)
		}
		if got := <-done; got != "done" {
			t.Errorf("the other call says %q", got)
		}
	})
}

// TestTokenZero is a progress token like any other.
func TestTokenZero(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "tool"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			return string(r.Meta(mcp.MetaProgressToken)), r.Progress(ctx, 1, 0, "")
		})
		d := newDispatcher(t, s, era, mcp.MethodToolsCall, "")
		listener := &listening{}
		meta := `"progressToken":0`
		if era == client.Modern {
			meta += "," + strings.TrimSuffix(strings.TrimPrefix(modernMeta, `,"_meta":{`), "}")
		}
		request, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tool","_meta":{` + meta + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		var reply jsonrpc.Reply
		if err := d.handler.Handle(t.Context(), listener, request.(*jsonrpc.Request), &reply); err != nil {
			t.Fatal(err)
		}
		want := []string{mcp.NotificationProgress + ` {"progressToken":0,"progress":1}`}
		if !slices.Equal(listener.told, want) || !strings.Contains(string(reply.Buf), `"text":"0"`) {
			t.Errorf("the caller is told %q, then %s", listener.told, reply.Buf)
		}
	})
}

// listening is a peer that remembers what it is told.
type listening struct {
	nobody
	told []string
}

func (l *listening) Notify(_ context.Context, method string, params jsonrpc.Appender) error {
	encoded, err := params.AppendJSON(nil)
	l.told = append(l.told, fmt.Sprint(method, " ", string(encoded)))
	return err
}
