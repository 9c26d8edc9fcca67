package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// newShop returns a server with an entry of each kind.
func newShop() *server.Server {
	s := newServer("shop")
	server.AddTool(s, server.Tool{Name: "add", Description: "Adds."}, func(_ context.Context, _ *server.Request, in struct{ A, B int }) (int, error) {
		return in.A + in.B, nil
	})
	server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		answer, err := server.Elicit[struct{ City string }](r, "city", "Where?")
		return answer.City, err
	})
	server.AddTool(s, server.Tool{Name: "work"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for i := range 3 {
			if err := r.Progress(ctx, float64(i+1), 3, "step"); err != nil {
				return "", err
			}
		}
		r.Logger("work").InfoContext(ctx, "log line")
		return "done", nil
	})
	server.AddTool(s, server.Tool{Name: "fail"}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "", &jsonrpc.Error{Code: -32042, Message: "no more", Data: json.RawMessage(`{"n":9007199254740993}`)}
	})
	server.AddPrompt(s, server.Prompt{Name: "greet", Description: "Greets."}, func(_ context.Context, _ *server.Request, in struct{ Name string }) (string, error) {
		return "Hello " + in.Name, nil
	})
	server.AddCompletion(s, server.Completion{Prompt: "greet", Argument: "Name"}, func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
		return []string{typed + "nn"}, nil
	})
	server.AddResource(s, server.Resource{URI: "note://1", Name: "one"}, func(context.Context, *server.Request) (string, error) { return "first", nil })
	server.AddTemplate(s, server.Template{URITemplate: "day://{day}", Name: "day"}, func(_ context.Context, _ *server.Request, in struct {
		Day string `json:"day"`
	}) (string, error) {
		return "on " + in.Day, nil
	})
	return s
}

func texts(t testing.TB, result *mcp.CallToolResult, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	text, err := llm.Text(result)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A testClient is a client that records notifications.
type testClient struct {
	*client.Session
	changes chan mcp.Change
	logged  chan *mcp.LoggingMessageParams
}

func newClient(t *testing.T, frontend transport.Binder, era client.Era) *testClient {
	t.Helper()
	g := &testClient{changes: make(chan mcp.Change, 1000), logged: make(chan *mcp.LoggingMessageParams, 100)}
	g.Session = connect(t, pipeTo(frontend), client.Options{
		Era:      era,
		OnChange: func(_ context.Context, change mcp.Change) { g.changes <- change },
		OnLog:    func(_ context.Context, message *mcp.LoggingMessageParams) { g.logged <- message },
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"City":"Bonn"}`)}, nil
		},
	})
	return g
}

// received returns the different changes that have been reported since the last call.
func (g *testClient) received() (changes []mcp.Change) {
	advance(2 * time.Second)
	for {
		select {
		case change := <-g.changes:
			if !slices.Contains(changes, change) {
				changes = append(changes, change)
			}
		default:
			return changes
		}
	}
}

func (g *testClient) tools(t testing.TB) string {
	t.Helper()
	var names []string
	for tool, err := range g.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

func TestProxyOffersEverything(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			p := bridge.Proxy(dialerTo(newShop()).speaks(behind), &bridge.ProxyOptions{Logger: quiet()})
			g := newClient(t, mount(t, p), caller)
			ctx := t.Context()

			if got := g.tools(t); got != "add ask work fail" {
				t.Errorf("the tools are %q", got)
			}
			result, err := g.CallTool(ctx, "add", json.RawMessage(`{"A":1,"B":2}`), nil)
			if got := texts(t, result, err); got != "3" {
				t.Errorf("add gave %q", got)
			}
			result, err = g.CallTool(ctx, "ask", nil, nil)
			if got := texts(t, result, err); got != "Bonn" {
				t.Errorf("ask gave %q", got)
			}
			var steps []string
			result, err = g.CallTool(ctx, "work", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
				if p.Total != nil {
					steps = append(steps, fmt.Sprintf("%v of %v: %s", p.Progress, *p.Total, p.Message))
				}
			}})
			if got := texts(t, result, err); got != "done" || !slices.Equal(steps, []string{"1 of 3: step", "2 of 3: step", "3 of 3: step"}) {
				t.Errorf("work gave %q after %v", got, steps)
			}
			if message := <-g.logged; !strings.Contains(string(message.Data), "log line") {
				t.Errorf("it logged %s", message.Data)
			}
			_, err = g.CallTool(ctx, "fail", nil, nil)
			if failed, ok := errors.AsType[*jsonrpc.Error](err); !ok || failed.Code != -32042 || failed.Message != "no more" || string(failed.Data) != `{"n":9007199254740993}` {
				t.Errorf("fail gave %#v", err)
			}

			for prompt, err := range g.Prompts(ctx, nil) {
				if err != nil || prompt.Name != "greet" || prompt.Description != "Greets." {
					t.Errorf("a prompt is %v, %v", prompt, err)
				}
			}
			prompt, err := g.GetPrompt(ctx, "greet", map[string]string{"Name": "Ann"}, nil)
			if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != "Hello Ann" {
				t.Errorf("the prompt is %v, %v", prompt, err)
			}
			values, err := g.CompletePrompt(ctx, "greet", "Name", "A", nil, nil)
			if err != nil || values.Values[0] != "Ann" {
				t.Errorf("the completion is %v, %v", values, err)
			}

			for resource, err := range g.Resources(ctx, nil) {
				if err != nil || resource.URI != "note://1" {
					t.Errorf("a resource is %v, %v", resource, err)
				}
			}
			for template, err := range g.Templates(ctx, nil) {
				if err != nil || template.URITemplate != "day://{day}" {
					t.Errorf("a template is %v, %v", template, err)
				}
			}
			for uri, want := range map[string]string{"note://1": "first", "day://monday": "on monday"} {
				read, err := g.ReadResource(ctx, uri, nil)
				if err != nil || read.Contents[0].(*mcp.TextResourceContents).Text != want {
					t.Errorf("%s is %v, %v", uri, read, err)
				}
			}
			_, err = g.ReadResource(ctx, "note://2", nil)
			if _, ok := errors.AsType[*jsonrpc.Error](err); !ok {
				t.Errorf("a resource that there is not gave %v", err)
			}
		})
	})
}

func TestProxyReportsChanges(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			up := newShop()
			dialer := dialerTo(up).speaks(behind)
			g := newClient(t, mount(t, bridge.Proxy(dialer, &bridge.ProxyOptions{Logger: quiet()})), caller)
			sub, err := g.Subscribe(t.Context(), mcp.SubscriptionFilter{
				ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: []string{"note://1"},
			})
			if err != nil {
				t.Fatal(err)
			}
			g.received()
			want := func(what string, wanted ...mcp.Change) {
				t.Helper()
				got := g.received()
				for _, change := range wanted {
					if !slices.Contains(got, change) {
						t.Errorf("%s: received %v, want %v", what, got, wanted)
					}
				}
				if len(got) != len(wanted) {
					t.Errorf("%s: received %v, want %v", what, got, wanted)
				}
			}
			updated := mcp.Change{Kind: mcp.KindResource, URI: "note://1"}

			server.AddTool(up, server.Tool{Name: "new"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
			want("a new tool", mcp.Change{Kind: mcp.KindTool})
			if got := g.tools(t); !strings.HasSuffix(got, " new") {
				t.Errorf("the tools are %q", got)
			}
			up.Remove(mcp.KindPrompt, "greet")
			want("no prompt any more", mcp.Change{Kind: mcp.KindPrompt})
			up.ResourceUpdated("note://1")
			want("a resource updated", updated)
			up.ResourceUpdated("day://1")
			want("another updated")

			dialer.cut()
			want("the server was started again", updated)
			up.ResourceUpdated("note://1")
			want("a resource updated after that", updated)
			up.Remove(mcp.KindResource, "note://1")
			want("a resource gone", mcp.Change{Kind: mcp.KindResource})
			sub.Close()
			advance(time.Second)
			up.Remove(mcp.KindTool, "new")
			if caller == client.Modern {
				want("nothing is asked for")
			}
		})
	})
}

// More resources can be subscribed to than a connection may have subscriptions.
func TestManyResourcesAreWatched(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			up := newShop()
			g := newClient(t, mount(t, bridge.Proxy(dialerTo(up).speaks(behind), &bridge.ProxyOptions{Logger: quiet()})), caller)
			var days []string
			for day := range 100 {
				days = append(days, fmt.Sprintf("day://%d", day))
			}
			if _, err := g.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: days}); err != nil {
				t.Fatal(err)
			}
			g.received()
			up.ResourceUpdated(days[0])
			up.ResourceUpdated(days[99])
			if got := g.received(); len(got) != 2 {
				t.Errorf("received %v", got)
			}
		})
	})
}

// A server may accept a subscription, and notify, with another spelling of the URI.
func TestSubscriptionInAnotherSpelling(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			var peer atomic.Pointer[jsonrpc.Peer]
			up := &fakeServer{era: behind, capabilities: `{"resources":{"subscribe":true}}`}
			up.answer = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
				switch req.Method {
				case mcp.MethodResourcesList:
					return `{"resources":[{"uri":"app://shop/a","name":"a"}]}`, nil
				case mcp.MethodSubscriptionsListen:
					meta := `"_meta":{"` + mcp.MetaSubscriptionID + `":` + req.ID.String() + `}`
					_ = from.Notify(ctx, mcp.NotificationAcknowledged, jsonrpc.Raw(`{"notifications":{"resourceSubscriptions":["APP://Shop/%61"]},`+meta+`}`))
					peer.Store(&from)
					<-ctx.Done()
					return "", ctx.Err()
				case mcp.MethodResourcesSubscribe:
					peer.Store(&from)
					return "{}", nil
				case mcp.MethodResourcesUnsubscribe:
					return "{}", nil
				}
				return "", nil
			}
			p := bridge.Proxy(pipeTo(up), &bridge.ProxyOptions{Logger: quiet()})
			g := newClient(t, mount(t, p), caller)
			stop, err := subscribe(t, p, "app://shop/a")
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if _, err := g.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"app://shop/%61"}}); err != nil {
				t.Fatal(err)
			}
			g.received()
			if err := (*peer.Load()).Notify(t.Context(), mcp.NotificationResourceUpdated, jsonrpc.Raw(`{"uri":"APP://Shop/%61"}`)); err != nil {
				t.Fatal(err)
			}
			if got, want := g.received(), []mcp.Change{{Kind: mcp.KindResource, URI: "app://shop/a"}}; !slices.Equal(got, want) {
				t.Errorf("received %v, want %v", got, want)
			}
		})
	})
}

// A subscription that the server refuses does not affect other subscriptions.
func TestRefusedSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &fakeServer{era: client.Legacy, capabilities: `{"resources":{"subscribe":true}}`}
		var peer atomic.Pointer[jsonrpc.Peer] // requests are handled concurrently
		up.answer = func(_ context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			peer.Store(&from)
			switch req.Method {
			case mcp.MethodResourcesList:
				return `{"resources":[{"uri":"a://","name":"a"},{"uri":"b://","name":"b"},{"uri":"secret://","name":"s"},{"uri":"gone://","name":"g"}]}`, nil
			case mcp.MethodResourcesSubscribe:
				if string(req.Member("uri")) == `"secret://"` {
					return "", &jsonrpc.Error{Code: -32042, Message: "secret"}
				}
				if string(req.Member("uri")) == `"gone://"` {
					return "", mcp.ResourceNotFound("gone://")
				}
				return "{}", nil
			case mcp.MethodResourcesUnsubscribe:
				return "{}", nil
			}
			return "", nil
		}
		p := bridge.Proxy(pipeTo(up), &bridge.ProxyOptions{Logger: quiet()})
		g := newClient(t, mount(t, p), client.Legacy)
		codes := map[string]jsonrpc.Code{"secret://": -32042, "gone://": mcp.CodeResourceNotFound}
		for _, uri := range []string{"a://", "secret://", "gone://", "b://"} {
			stop, err := subscribe(t, p, uri)
			var code jsonrpc.Code
			if failed, ok := errors.AsType[*jsonrpc.Error](err); ok {
				code = failed.Code
			}
			if code != codes[uri] {
				t.Errorf("%s: %v", uri, err)
			}
			if err == nil {
				defer stop()
			}
		}
		sub, err := g.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"none://"}})
		if err != nil || len(sub.Agreed().ResourceSubscriptions) > 0 {
			t.Errorf("subscribing to an unknown resource gives %+v, %v", sub, err)
		}
		if _, err := g.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"b://"}}); err != nil {
			t.Fatal(err)
		}
		g.received()
		(*peer.Load()).Notify(t.Context(), mcp.NotificationResourceUpdated, jsonrpc.Raw(`{"uri":"b://"}`))
		if got := g.received(); len(got) != 1 {
			t.Errorf("received %v", got)
		}
	})
}

// A blocking tool of an upstream runs once, whichever versions its caller and the upstream use.
func TestBlockingToolOfUpstream(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, upstream client.Era) {
		var runs atomic.Int32
		shop := newServer("shop")
		server.AddTool(shop, server.Tool{Name: "ask", Blocking: true}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			runs.Add(1)
			var cities []string
			for range 2 {
				answer, err := server.Elicit[struct{ City string }](r, "city", "Where?")
				if err != nil {
					return "", err
				}
				cities = append(cities, answer.City)
				if err := r.Progress(ctx, float64(len(cities)), 2, ""); err != nil {
					return "", err
				}
			}
			return strings.Join(cities, " and "), nil
		})
		c := newClient(t, mount(t, bridge.Proxy(dialerTo(shop).speaks(upstream), &bridge.ProxyOptions{Logger: quiet()})), caller)
		steps := 0
		result, err := c.CallTool(t.Context(), "ask", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { steps++ }})
		if got := texts(t, result, err); got != "Bonn and Bonn" || runs.Load() != 1 || steps != 2 {
			t.Errorf("the tool says %q after %d runs and %d notifications", got, runs.Load(), steps)
		}
	})
}
