package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// newCalculator returns a server with the tools add and hang.
func newCalculator() *server.Server {
	s := server.New(mcp.Implementation{Name: "calculator", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in addIn) (int, error) { return in.A + in.B, nil })
	server.AddTool(s, server.Tool{Name: "hang"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	return s
}

// The tools of one server, without those that a filter leaves out.
func ExampleNewProvider() {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(newCalculator()), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	tools := llm.NewProvider(llm.SessionTools(session), &llm.ProviderOptions{Select: func(name string) bool { return name != "hang" }})
	handle := llm.UnknownAsText(llm.NewHandler(tools))
	fmt.Println(handle(ctx, "add", json.RawMessage(`{"A":1,"B":2}`)))
	fmt.Println(handle(ctx, "hang", nil))
	// Output:
	// 3 <nil>
	// {"error":"Unknown tool: hang"} <nil>
}

// A call ends after 30 seconds unless an option says otherwise, in both eras.
func TestProviderTimeout(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		for option, want := range map[time.Duration]time.Duration{0: 30 * time.Second, time.Second: time.Second, -1: time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				session, err := client.Connect(t.Context(), transport.Pipe(newCalculator()), &client.Options{Era: era})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				tools := llm.NewProvider(llm.SessionTools(session), &llm.ProviderOptions{CallTimeout: option})
				began := time.Now()
				_, err = tools.CallTool(t.Context(), "hang", nil)
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < want || took > want+time.Second {
					t.Errorf("era %v, option %v: %v after %v, want %v", era, option, err, took, want)
				}
			})
		}
	}
}

// Handlers that answer that a tool is unknown are combined with the handlers of this package in any order.
func TestUnknownAsText(t *testing.T) {
	roomkit := func(own string) llm.Handler {
		return func(_ context.Context, name string, _ json.RawMessage) (string, error) {
			if name != own {
				return `{"error": "Unknown tool: ` + name + `"}`, nil
			}
			return "of " + own, nil
		}
	}
	b, stop, err := newBridge()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	theirs, ours, other := llm.UnknownFromText(roomkit("theirs")), llm.NewHandler(b), llm.UnknownFromText(roomkit("other"))
	for _, order := range [][]llm.Handler{{theirs, ours, other}, {ours, theirs, other}, {theirs, other, ours}, {other, theirs, ours}} {
		handle := llm.FirstMatch(order[0], order[1], order[2])
		for name, want := range map[string]string{"theirs": "of theirs", "other": "of other", "calc__add": "0", "none": ""} {
			got, err := handle(t.Context(), name, nil)
			if name == "calc__add" {
				got, err = handle(t.Context(), name, json.RawMessage(`{"A":0,"B":0}`))
			}
			if got != want || errors.Is(err, bridge.ErrUnknownTool) != (name == "none") {
				t.Errorf("%s: %q, %v, want %q", name, got, err, want)
			}
		}
		if got, err := llm.UnknownAsText(handle)(t.Context(), "none", nil); err != nil || got != `{"error":"Unknown tool: none"}` {
			t.Errorf("as text: %s, %v", got, err)
		}
	}
	for text, unknown := range map[string]bool{
		`{"error":"unknown TOOL x"}`: true, `{"a":1,"error":"Unknown tool"}`: true,
		`{"error":"no"}`: false, `{"error":1}`: false, `"Unknown tool: x"`: false, `Unknown tool: x`: false, ``: false, `{"error":"Unknown too"}`: false, `[]`: false,
	} {
		_, err := llm.UnknownFromText(func(context.Context, string, json.RawMessage) (string, error) { return text, nil })(t.Context(), "x", nil)
		if errors.Is(err, bridge.ErrUnknownTool) != unknown {
			t.Errorf("%s: %v", text, err)
		}
	}
}
