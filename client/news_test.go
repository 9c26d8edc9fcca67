package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/everywhere"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func newTalker() *server.Server {
	s := newServer(&server.Options{Capabilities: &offersAll})
	server.AddTool(s, server.Tool{Name: "talk"}, func(_ context.Context, r *server.Request, in stepsIn) (string, error) {
		log := r.Logger("saw")
		for i := range in.Steps {
			log.Debug("unwanted")
			log.Info("cut", "n", i)
		}
		log.Error("dull")
		return "done", nil
	})
	server.AddResource(s, server.Resource{URI: motto}, func(context.Context, *server.Request) (string, error) { return "measure twice", nil })
	return s
}

func TestLogMessagesInOrder(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		const cuts = 100
		var want []string
		for i := range cuts {
			want = append(want, fmt.Sprintf(`info saw {"message":"cut","n":%d}`, i))
		}
		want = append(want, `error saw {"message":"dull"}`)

		got := make(chan string, len(want))
		session := connect(t, everywhere.Dialer(t, newTalker()), client.Options{Era: era, Logged: func(_ context.Context, m *mcp.LoggingMessageParams) {
			got <- fmt.Sprintf("%s %s %s", m.Level, m.Logger, m.Data)
		}})
		if _, err := session.CallTool(t.Context(), "talk", stepsIn{cuts}, nil); err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if diff := cmp.Diff(line, <-got); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestLogLevel(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		got := make(chan string, 10)
		session := connect(t, everywhere.Dialer(t, newTalker()), client.Options{
			Era: era, LogLevel: mcp.LevelError,
			Logged: func(_ context.Context, m *mcp.LoggingMessageParams) { got <- string(m.Data) },
		})
		if _, err := session.CallTool(t.Context(), "talk", stepsIn{5}, nil); err != nil {
			t.Fatal(err)
		}
		if line := <-got; line != `{"message":"dull"}` {
			t.Errorf("logged below the level: %s", line)
		}
	})
}

// A handler that is slow costs bounded memory: it misses the oldest messages,
// and nothing else waits for it.
func TestSlowLogHandlerMissesTheOldest(t *testing.T) {
	const sent, kept = 5000, 1024
	synctest.Test(t, func(t *testing.T) {
		inside, leave := make(chan struct{}), make(chan struct{})
		var seen []string
		session := connect(t, script(func(req *jsonrpc.Request) []string {
			if req.Method != mcp.MethodToolsCall {
				return nil
			}
			var frames []string
			for i := range sent {
				frames = append(frames, notification(mcp.NotificationMessage, fmt.Sprintf(`{"level":"info","data":%d}`, i)))
			}
			return append(frames, notification(mcp.NotificationMessage, `{"level":7}`), result(req, text("done")))
		}), client.Options{Logged: func(_ context.Context, m *mcp.LoggingMessageParams) {
			if len(seen) == 0 {
				close(inside)
				<-leave
			}
			seen = append(seen, string(m.Data))
		}})
		if _, err := session.CallTool(t.Context(), "x", nil, nil); err != nil {
			t.Fatal(err)
		}
		<-inside
		close(leave)
		synctest.Wait()
		if n := len(seen); n < 1000 || n > 2*kept {
			t.Errorf("%d of %d messages were kept for a slow handler, want about %d", n, sent, kept)
		}
		for i, data := range seen[len(seen)-1000:] {
			if data != fmt.Sprint(sent-1000+i) {
				t.Fatalf("among the last messages, %s is in place of %d", data, sent-1000+i)
			}
		}
	})
}

// A handler for changes may list what has changed, and end what it hears of.
func TestChangedMayCallTheSession(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newTalker()
		var session *client.Session
		type outcome struct {
			names []string
			err   error
		}
		listed := make(chan outcome, 1)
		subscribed := make(chan *client.Subscription, 1)
		session = connect(t, everywhere.Dialer(t, s), client.Options{Era: era, Changed: func(ctx context.Context, change mcp.Change) {
			var out outcome
			for tool, err := range session.Tools(ctx) {
				if err != nil {
					out.err = err
					break
				}
				out.names = append(out.names, tool.Name)
			}
			(<-subscribed).Close()
			listed <- out
		}})
		sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
		if err != nil {
			t.Fatal(err)
		}
		subscribed <- sub
		addTool(t, s, "new")
		out := <-listed
		if diff := cmp.Diff([]string{"talk", "new"}, out.names); out.err != nil || diff != "" {
			t.Errorf("%v\n%s", out.err, diff)
		}
	})
}

func addTool(t *testing.T, s *server.Server, name string) {
	t.Helper()
	entry, err := server.NewRawTool(server.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) { return mcp.Raw(`{}`), nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(entry); err != nil {
		t.Fatal(err)
	}
}

// TestUnknownLogLevelIsRefused before the server is connected to: it would else hear of
// it at best, and the client nothing at worst.
func TestUnknownLogLevelIsRefused(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		server := &breaker{server: newTalker()}
		for _, level := range []mcp.LoggingLevel{"loud", "Error", "warn"} {
			session, err := client.Connect(t.Context(), server, &client.Options{Era: era, LogLevel: level})
			if err == nil {
				session.Close()
			}
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no log level %q", level)) {
				t.Errorf("%q: the error is %v", level, err)
			}
		}
		if n := server.dials.Load(); n > 0 {
			t.Errorf("the client has connected %d times", n)
		}
	})
}
