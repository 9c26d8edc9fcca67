package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// outgoing records, changes and leaves out the messages of a server.
type outgoing struct {
	mu   sync.Mutex
	seen map[string]bool // methods, with the client
}

// record notes a message.
func (o *outgoing) record(_ context.Context, to *mcp.Caller, method string, params json.RawMessage) (json.RawMessage, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[method+" to "+to.Info.Name] = true
	return params, nil
}

// redact replaces a word, and leaves out messages with another one and changes of the list of tools.
func redact(_ context.Context, _ *mcp.Caller, method string, params json.RawMessage) (json.RawMessage, error) {
	if bytes.Contains(params, []byte("nothing")) || method == mcp.NotificationToolsListChanged {
		return nil, errors.New("it must not be sent")
	}
	return bytes.ReplaceAll(params, []byte("secret"), []byte("public")), nil
}

// TestOutgoing checks that functions see, change and leave out each kind of message that a server sends.
func TestOutgoing(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		o := &outgoing{seen: make(map[string]bool)}
		s := newServer(&server.Options{Logger: discardLogger(), Outgoing: []server.Outgoing{o.record, redact}})
		server.AddTool(s, server.Tool{Name: "talk"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			for i, text := range []string{"a secret", "nothing", "the end"} {
				if err := r.Progress(ctx, float64(i), 0, text); err != nil {
					return "", err
				}
				r.Logger("").Info(text)
			}
			return "done", nil
		})
		server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			_, err1 := server.Elicit[bool](r, "elicit", "Tell the secret?")
			said, err2 := server.Sample(r, "sample", mcp.SamplingPrompt("Tell the secret."))
			roots, err3 := server.Roots(r, "roots")
			if err := errors.Join(err1, err2, err3); err != nil {
				return "", err
			}
			return fmt.Sprint(said.Text(), len(roots)), nil
		})
		server.AddTool(s, server.Tool{Name: "refused"}, func(_ context.Context, r *server.Request, _ struct{}) (bool, error) {
			return server.Elicit[bool](r, "elicit", "Ask nothing?")
		})
		server.AddResource(s, server.Resource{URI: "app:r"}, func(context.Context, *server.Request) (string, error) { return "", nil })

		logs, changes := make(chan string, 10), make(chan mcp.Change, 10)
		var asked []string
		session := connectWith(t, s, &client.Options{
			Era: era, Info: mcp.Implementation{Name: "ann", Version: "1"},
			OnLog:    func(_ context.Context, m *mcp.LoggingMessageParams) { logs <- string(m.Data) },
			OnChange: func(_ context.Context, change mcp.Change) { changes <- change },
			Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				asked = append(asked, p.Message)
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"value":true}`)}, nil
			},
			Sample: func(_ context.Context, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: p.Messages[0].Content}, nil
			},
			Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///"}}, nil },
		})

		var progress []string
		_, err := session.CallTool(t.Context(), "talk", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) { progress = append(progress, p.Message) }})
		if want := []string{"a public", "the end"}; err != nil || !slices.Equal(progress, want) {
			t.Errorf("the progress is %q, %v; want %q", progress, err, want)
		}
		for _, want := range []string{`{"message":"a public"}`, `{"message":"the end"}`} {
			if got := waittest.Receive(t, "the log message", logs); got != want {
				t.Errorf("logged %s, want %s", got, want)
			}
		}

		if got := textOf(call(t, session, "ask", `{}`)); got != "Tell the public.1" || !slices.Equal(asked, []string{"Tell the public?"}) {
			t.Errorf("the answers are %q, asked was %q", got, asked)
		}
		_, err = session.CallTool(t.Context(), "refused", nil, nil)
		wantCode(t, err, jsonrpc.InternalError)
		if len(asked) != 1 {
			t.Errorf("asked was %q", asked)
		}

		if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{"app:r"}}); err != nil {
			t.Fatal(err)
		}
		s.Remove(mcp.KindTool, "refused")
		s.ResourceUpdated("app:r")
		if change := waittest.Receive(t, "the change", changes); change.URI != "app:r" {
			t.Errorf("the first change is %+v", change)
		}

		o.mu.Lock()
		defer o.mu.Unlock()
		want := []string{
			mcp.NotificationProgress, mcp.NotificationMessage, mcp.NotificationToolsListChanged, mcp.NotificationResourceUpdated,
			mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodRootsList,
		}
		for i := range want {
			want[i] += " to ann"
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(o.seen)); !slices.Equal(got, want) {
			t.Errorf("the messages are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestOutgoingOfTasks checks the questions and states of calls that run as tasks.
func TestOutgoingOfTasks(t *testing.T) {
	o := &outgoing{seen: make(map[string]bool)}
	s := newServer(&server.Options{Logger: discardLogger(), Outgoing: []server.Outgoing{redact, o.record}})
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	server.AddTool(s, server.Tool{Name: "ask", Task: server.TaskOptional}, func(_ context.Context, r *server.Request, _ struct{}) (bool, error) {
		return server.Elicit[bool](r, "elicit", "Tell the secret?")
	})
	var asked []string
	session := connectInMemory(t, s, &client.Options{Era: client.Modern, Info: mcp.Implementation{Name: "ann", Version: "1"}, Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		asked = append(asked, p.Message)
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"value":true}`)}, nil
	}})
	if got := textOf(call(t, session, "ask", `{}`)); got != "true" || !slices.Equal(asked, []string{"Tell the public?"}) {
		t.Errorf("the answer is %q, asked was %q", got, asked)
	}
	if !o.seen[mcp.MethodElicit+" to ann"] {
		t.Errorf("the messages are %v", o.seen)
	}
}
