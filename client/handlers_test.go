package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type preferences struct {
	Wood  string `json:"wood"`
	Count int    `json:"count,omitempty" jsonschema:"default=4"`
}

// newElicitServer is a server whose tools ask.
func newElicitServer() *server.Server {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "order"}, func(_ context.Context, r *server.Request, _ noServer) (string, error) {
		w, err := server.Elicit[preferences](r, "wish", "Which wood?")
		if declined, ok := errors.AsType[*server.DeclinedError](err); ok {
			return string(declined.Action), nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d %s", w.Count, w.Wood), nil
	})
	server.AddTool(s, server.Tool{Name: "pay"}, func(_ context.Context, r *server.Request, _ noServer) (string, error) {
		return "paid", server.ElicitURL(r, "pay", "Pay here.", "https://pay.example.com/1")
	})
	server.AddTool(s, server.Tool{Name: "muse"}, func(_ context.Context, r *server.Request, _ noServer) (string, error) {
		result, err := server.Sample(r, "muse", &mcp.CreateMessageParams{MaxTokens: 10})
		if err != nil {
			return "", err
		}
		return result.Model, nil
	})
	server.AddTool(s, server.Tool{Name: "look"}, func(_ context.Context, r *server.Request, _ noServer) (int, error) {
		roots, err := server.Roots(r, "roots")
		return len(roots), err
	})
	server.AddTool(s, server.Tool{Name: "three"}, func(_ context.Context, r *server.Request, _ noServer) (string, error) {
		var words []string
		for _, key := range []string{"a", "b", "c"} {
			w, err := server.Elicit[preferences](r, key, key)
			if err != nil {
				return "", err
			}
			words = append(words, w.Wood)
		}
		return strings.Join(words, " "), nil
	})
	server.AddTool(s, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in sumIn) (int, error) {
		return in.A + in.B, nil
	})
	return s
}

func elicits(action mcp.ElicitAction, content string) func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		result := &mcp.ElicitResult{Action: action}
		if content != "" {
			result.Content = json.RawMessage(content)
		}
		return result, nil
	}
}

func TestHandlersAnswer(t *testing.T) {
	sample := func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "oak-1", Content: mcp.SamplingContent{mcp.Text("hm")}}, nil
	}
	tests := map[string]struct {
		tool string
		opts client.Options
		want string
	}{
		"form":           {"order", client.Options{Elicit: elicits(mcp.ElicitAccept, `{"wood":"oak","count":2}`)}, "2 oak"},
		"defaults":       {"order", client.Options{Elicit: elicits(mcp.ElicitAccept, `{"wood":"elm"}`)}, "4 elm"},
		"decline":        {"order", client.Options{Elicit: elicits(mcp.ElicitDecline, "")}, "decline"},
		"cancel":         {"order", client.Options{Elicit: elicits(mcp.ElicitCancel, "")}, "cancel"},
		"several rounds": {"three", client.Options{Elicit: elicits(mcp.ElicitAccept, `{"wood":"ash"}`)}, "ash ash ash"},
		"url":            {"pay", client.Options{Elicit: elicits(mcp.ElicitAccept, ""), ElicitURLs: true}, "paid"},
		"sampling":       {"muse", client.Options{Sample: sample}, "oak-1"},
		"roots":          {"look", client.Options{Roots: func(context.Context) ([]mcp.Root, error) { return make([]mcp.Root, 2), nil }}, "2"},
		"no roots":       {"look", client.Options{Roots: func(context.Context) ([]mcp.Root, error) { return nil, nil }}, "0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				opts := test.opts
				opts.Era = era
				session := connect(t, transporttests.Dialer(t, newElicitServer()), opts)
				result, err := session.CallTool(t.Context(), test.tool, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := result.Content[0].(*mcp.TextContent).Text; got != test.want {
					t.Errorf("the tool says %q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestSetHandlers replaces handlers of an open session, also while the server asks.
func TestSetHandlers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		noModel := func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return nil, errors.New("no model yet")
		}
		session := connect(t, transporttests.Dialer(t, newElicitServer()), client.Options{
			Era: era, Sample: noModel, Elicit: elicits(mcp.ElicitDecline, ""), Logger: slog.New(slog.DiscardHandler),
		})
		text := func(tool string) string {
			result, err := session.CallTool(t.Context(), tool, nil, nil)
			if err != nil {
				return "failed"
			}
			return result.Content[0].(*mcp.TextContent).Text
		}
		if got := text("order"); got != "decline" {
			t.Errorf("before, the tool says %q", got)
		}
		if got := text("muse"); got == "oak-2" {
			t.Errorf("before, the tool says %q", got)
		}
		var calls sync.WaitGroup
		calls.Go(func() { text("three") }) // asks meanwhile
		err := session.SetHandlers(client.Handlers{Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "oak-2", Content: mcp.SamplingContent{mcp.Text("hm")}}, nil
		}})
		if err != nil {
			t.Error(err)
		}
		calls.Wait()
		if got := text("muse"); got != "oak-2" {
			t.Errorf("with another handler, the tool says %q", got)
		}
		if got := text("order"); got != "decline" {
			t.Errorf("the handler that was not replaced says %q", got)
		}
		err = session.SetHandlers(client.Handlers{
			Elicit: elicits(mcp.ElicitAccept, `{"wood":"elm"}`),
			Roots:  func(context.Context) ([]mcp.Root, error) { return nil, nil },
		})
		if err == nil || !strings.Contains(err.Error(), "Roots") {
			t.Errorf("a handler that the session has not declared: %v", err)
		}
		if got := text("order"); got != "decline" {
			t.Errorf("after an error, the tool says %q", got)
		}
	})
}

// TestSetHandlersWithCapabilities checks the error of a session whose handlers are not called.
func TestSetHandlersWithCapabilities(t *testing.T) {
	session := connect(t, transporttests.Dialer(t, newElicitServer()), client.Options{Capabilities: &mcp.ClientCapabilities{}})
	err := session.SetHandlers(client.Handlers{Elicit: elicits(mcp.ElicitAccept, "")})
	if err == nil || !strings.Contains(err.Error(), "Options.Capabilities") {
		t.Errorf("the error is %v", err)
	}
}

// TestOptionsThatExcludeEachOther checks that an option that would have no effect is an error.
func TestOptionsThatExcludeEachOther(t *testing.T) {
	none := map[string]json.RawMessage{}
	for option, opts := range map[string]client.Options{
		"Elicit":       {Elicit: elicits(mcp.ElicitDecline, "")},
		"Sample":       {Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) { return nil, nil }},
		"ShowsApps":    {ShowsApps: true},
		"Experimental": {Experimental: none},
		"Extensions":   {Extensions: none},
	} {
		opts.Capabilities = &mcp.ClientCapabilities{}
		session, err := client.Connect(t.Context(), transporttests.Dialer(t, newServer(nil)), &opts)
		if err == nil {
			session.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "Options."+option+" ") || !strings.Contains(err.Error(), "Options.Capabilities") {
			t.Errorf("%s: the error is %v", option, err)
		}
	}
}

// TestQuestionWithoutHandler checks that a question for which the client has declared a capability, and has no handler, fails.
func TestQuestionWithoutHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		can := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}, Sampling: &mcp.SamplingCapability{}, Roots: &mcp.RootsCapability{}}
		session := connect(t, transport.Pipe(newElicitServer()), client.Options{Era: client.Modern, Capabilities: &can, Logger: slog.New(slog.DiscardHandler)})
		for _, tool := range []string{"order", "muse", "look"} {
			result, err := session.CallTool(t.Context(), tool, nil, nil)
			if err == nil && !result.IsError || strings.Contains(fmt.Sprint(err), "panicked") {
				t.Errorf("%s: the result is %v, the error %v", tool, result, err)
			}
		}
	})
}

// TestDeclaredCapabilities checks that the server sees the capabilities of the options beside those of the handlers.
func TestDeclaredCapabilities(t *testing.T) {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "capabilities"}, func(_ context.Context, r *server.Request, _ struct{}) (*mcp.CallToolResult, error) {
		can := r.Caller().Capabilities
		return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text(fmt.Sprintf("%s %s %t %t",
			can.Experimental["example.com/x"], can.Extensions["example.com/y"], can.Elicitation != nil, can.ShowsApps()))}}, nil
	})
	eachEra(t, func(t *testing.T, era client.Era) {
		opts := client.Options{
			Era: era, Elicit: elicits(mcp.ElicitDecline, ""), ShowsApps: true,
			Experimental: map[string]json.RawMessage{"example.com/x": json.RawMessage(`{"a":1}`)},
			Extensions:   map[string]json.RawMessage{"example.com/y": json.RawMessage(`{}`)},
		}
		session := connect(t, transporttests.Dialer(t, s), opts)
		got, err := session.CallTool(t.Context(), "capabilities", nil, nil)
		if want := `{"a":1} {} true true`; err != nil || got.Text() != want {
			t.Errorf("the server sees %v, %v; want %s", got, err, want)
		}
		if len(opts.Extensions) != 1 {
			t.Errorf("the options were changed: %s", opts.Extensions)
		}
	})
	for _, malformed := range []string{"", "null", "[]", "{"} {
		for name, opts := range map[string]client.Options{
			"experimental": {Experimental: map[string]json.RawMessage{"example.com/x": json.RawMessage(malformed)}},
			"extensions":   {Extensions: map[string]json.RawMessage{"example.com/x": json.RawMessage(malformed)}},
		} {
			session, err := client.Connect(t.Context(), transporttests.Dialer(t, s), &opts)
			if err == nil {
				session.Close()
				t.Errorf("%s: %q is accepted", name, malformed)
			}
		}
	}
}

// TestDefaultsAreFilledIn checks that the client adds defaults to the answer.
func TestDefaultsAreFilledIn(t *testing.T) {
	const ask = `{"message":"m","requestedSchema":{"type":"object","properties":{
		"wood":{"type":"string","default":"oak"},"count":{"type":"integer","default":4},"nails":{"type":"boolean","default":true}}}}`
	const want = `{"action":"accept","content":{"count":7,"wood":"oak","nails":true}}`
	eachEra(t, func(t *testing.T, era client.Era) {
		answer := make(chan string, 1)
		session := connect(t, script(func(req *jsonrpc.Request) []string {
			switch responses := req.Member("inputResponses", "k"); {
			case req.Method == "response":
				answer <- string(req.Params)
				return []string{}
			case req.Method != mcp.MethodToolsCall:
				return nil
			case responses != nil:
				answer <- string(responses)
				return []string{result(req, text("done"))}
			case era == client.Modern:
				return []string{result(req, `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":`+ask+`}}}`)}
			}
			return []string{`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":` + ask + `}`, result(req, text("done"))}
		}), client.Options{Era: era, Elicit: elicits(mcp.ElicitAccept, `{"count":7}`)})
		if _, err := session.CallTool(t.Context(), "x", nil, nil); err != nil {
			t.Fatal(err)
		}
		if got := waittest.Receive(t, "the answer", answer); !strings.Contains(got, want) {
			t.Errorf("the answer is %s, want %s", got, want)
		}
	})
}

func TestHandlerSeesTheQuestion(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var asked *mcp.ElicitParams
		session := connect(t, transporttests.Dialer(t, newElicitServer()), client.Options{Era: era, Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			asked = p
			return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
		}})
		if _, err := session.CallTool(t.Context(), "order", nil, nil); err != nil {
			t.Fatal(err)
		}
		if asked.Message != "Which wood?" || !strings.Contains(string(asked.RequestedSchema), `"default":4`) {
			t.Errorf("the handler was asked %s", raw(t, asked))
		}
	})
}

// TestHandlersThatFail checks that a failing handler fails the call that asks, and that the session
// continues.
func TestHandlersThatFail(t *testing.T) {
	broken := errors.New("the screen is dark")
	handlers := map[string]func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error){
		"error":   func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, broken },
		"nothing": func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil },
		"panic":   func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { panic("oops") },
		"no form": elicits(mcp.ElicitAccept, `"oak"`),
	}
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				session := connect(t, transporttests.Dialer(t, newElicitServer()), client.Options{Era: era, Elicit: handler})
				result, err := session.CallTool(t.Context(), "order", nil, nil)
				if err == nil && !result.IsError {
					t.Errorf("the call gave %s", raw(t, result))
				}
				if era == client.Modern {
					call := failed(t, err, jsonrpc.MaybeExecuted)
					if name == "error" && !errors.Is(call, broken) {
						t.Errorf("the error is %v, want the handler's", err)
					}
				}
				if sum, err := client.CallAs[int](t.Context(), session, "add", sumIn{1, 2}, nil); err != nil || sum != 3 {
					t.Errorf("afterwards: %d, %v", sum, err)
				}
			})
		})
	}
}

// What a client did not say it can be asked it is not asked, even by a server that
// does not care.
func TestUndeclaredQuestions(t *testing.T) {
	for _, tool := range []string{"order", "pay", "muse", "look"} {
		eachEra(t, func(t *testing.T, era client.Era) {
			opts := client.Options{Era: era}
			if tool == "pay" { // forms only
				opts.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					t.Error("the handler for forms was asked for a URL")
					return nil, nil
				}
			}
			session := connect(t, transporttests.Dialer(t, newElicitServer()), opts)
			if _, err := session.CallTool(t.Context(), tool, nil, nil); err == nil {
				t.Errorf("%s: the tool was answered", tool)
			}
		})
	}
}

// TestUndeclaredQuestionsInResults checks that the client refuses questions that it has not
// declared.
func TestUndeclaredQuestionsInResults(t *testing.T) {
	questions := map[string]string{
		mcp.MethodElicit:        `{"message":"m","requestedSchema":{"type":"object","properties":{}}}`,
		mcp.MethodCreateMessage: `{"messages":[],"maxTokens":1}`,
		mcp.MethodRootsList:     `{}`,
		"example/unheard-of":    `{}`,
	}
	for method, params := range questions {
		t.Run("modern "+method, func(t *testing.T) {
			session := connect(t, script(func(req *jsonrpc.Request) []string {
				if req.Method != mcp.MethodToolsCall {
					return nil
				}
				return []string{result(req, fmt.Sprintf(`{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":%q,"params":%s}}}`, method, params))}
			}), client.Options{})
			_, err := session.CallTool(t.Context(), "x", nil, nil)
			failed(t, err, jsonrpc.MaybeExecuted)
		})
		for era, name := range map[client.Era]string{client.Legacy: "legacy", client.Modern: "request in the modern era"} {
			t.Run(name+" "+method, func(t *testing.T) {
				answers := make(chan string, 1)
				session := connect(t, script(func(req *jsonrpc.Request) []string {
					switch req.Method {
					case mcp.MethodToolsCall:
						return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":"q","method":%q,"params":%s}`, method, params), result(req, text("done"))}
					case "response":
						answers <- string(req.Params)
					}
					return nil
				}), client.Options{Era: era})
				if _, err := session.CallTool(t.Context(), "x", nil, nil); err != nil {
					t.Error(err)
				}
				if answer := waittest.Receive(t, "an answer", answers); !strings.Contains(answer, `"error"`) {
					t.Errorf("the question was answered: %s", answer)
				}
			})
		}
	}
}

// TestQuestionsOfOneRoundAreConcurrent checks that a person may answer in any order.
func TestQuestionsOfOneRoundAreConcurrent(t *testing.T) {
	const ask = `{"method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object","properties":{}}}}`
	answered := make(chan string, 1)
	var all sync.WaitGroup
	all.Add(2)
	session := connect(t, script(func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodToolsCall {
			return nil
		}
		if responses := req.Member("inputResponses"); responses != nil {
			answered <- string(responses) + string(req.Member("requestState"))
			return []string{result(req, text("done"))}
		}
		return []string{result(req, `{"resultType":"input_required","requestState":"s","inputRequests":{"b":`+fmt.Sprintf(ask, "bee")+`,"a":`+fmt.Sprintf(ask, "ay")+`}}`)}
	}), client.Options{Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		all.Done()
		all.Wait()
		return &mcp.ElicitResult{Action: mcp.ElicitDecline, Content: json.RawMessage(fmt.Sprintf("{%q:1}", p.Message))}, nil
	}})
	if _, err := session.CallTool(t.Context(), "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	const want = `{"a":{"action":"decline","content":{"ay":1}},"b":{"action":"decline","content":{"bee":1}}}"s"`
	if got := waittest.Receive(t, "the answer", answered); got != want {
		t.Errorf("the answers are %s\nwant %s", got, want)
	}
}

// TestHandlersMayCallTheSession checks that a handler may use its session.
func TestHandlersMayCallTheSession(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var session *client.Session
		session = connect(t, transporttests.Dialer(t, newElicitServer()), client.Options{Era: era, Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			sum, err := client.CallAs[int](ctx, session, "add", sumIn{2, 3}, nil)
			if err != nil {
				return nil, err
			}
			if err := session.Ping(ctx); err != nil {
				return nil, err
			}
			for _, err := range session.Tools(ctx, nil) {
				if err != nil {
					return nil, err
				}
			}
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(fmt.Sprintf(`{"wood":"oak","count":%d}`, sum))}, nil
		}})
		if got, err := client.CallAs[string](t.Context(), session, "order", nil, nil); err != nil || got != "5 oak" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestHandlersAnswerSeveralRounds checks that a call made by a handler may ask too.
func TestHandlersAnswerSeveralRounds(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var session *client.Session
		var depth int
		session = connect(t, transporttests.Dialer(t, newElicitServer()), client.Options{Era: era, Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			if depth++; depth < 5 {
				if _, err := session.CallTool(ctx, "order", nil, nil); err != nil {
					return nil, err
				}
			}
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}})
		if got, err := client.CallAs[string](t.Context(), session, "order", nil, nil); err != nil || got != "decline" || depth != 5 {
			t.Errorf("%q at depth %d, %v", got, depth, err)
		}
	})
}

func newLogServer() *server.Server {
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
		session := connect(t, transporttests.Dialer(t, newLogServer()), client.Options{Era: era, OnLog: func(_ context.Context, m *mcp.LoggingMessageParams) {
			got <- fmt.Sprintf("%s %s %s", m.Level, m.Logger, m.Data)
		}})
		if _, err := session.CallTool(t.Context(), "talk", stepsIn{cuts}, nil); err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if diff := cmp.Diff(line, waittest.Receive(t, "the message", got)); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// TestListeners adds and removes functions for changes and log messages of an open session.
func TestListeners(t *testing.T) {
	for kind, test := range map[string]struct {
		add func(s *client.Session, note func()) (remove func())
		set func(opts *client.Options, note func())
		// cause makes the server send one message.
		cause func(s *server.Server, session *client.Session) error
	}{
		"logs": {
			func(s *client.Session, note func()) func() {
				return s.OnLog(func(context.Context, *mcp.LoggingMessageParams) { note() })
			},
			func(opts *client.Options, note func()) {
				opts.OnLog = func(context.Context, *mcp.LoggingMessageParams) { note() }
			},
			func(_ *server.Server, session *client.Session) error {
				_, err := session.CallTool(context.Background(), "talk", stepsIn{0}, nil)
				return err
			},
		},
		"changes": {
			func(s *client.Session, note func()) func() {
				return s.OnChange(func(context.Context, mcp.Change) { note() })
			},
			func(opts *client.Options, note func()) {
				opts.OnChange = func(context.Context, mcp.Change) { note() }
			},
			func(s *server.Server, _ *client.Session) error {
				s.ResourceUpdated(motto)
				return nil
			},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				called := make(chan string, 10)
				note := func(name string) func() { return func() { called <- name } }
				s, opts := newLogServer(), client.Options{Era: era, LogLevel: mcp.LevelInfo}
				test.set(&opts, note("option"))
				session := connect(t, transporttests.Dialer(t, s), opts)
				if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{motto}}); err != nil {
					t.Fatal(err)
				}
				removeFirst := test.add(session, note("first"))
				removeLast := test.add(session, note("last")) // it shows that the others were called, or not
				for i, step := range []struct {
					change func()
					want   []string
				}{
					{func() {}, []string{"option", "first", "last"}},
					{removeFirst, []string{"option", "last"}},
					{removeFirst, []string{"option", "last"}},
					{func() { test.add(session, note("again")) }, []string{"option", "last", "again"}},
					{removeLast, []string{"option", "again"}},
				} {
					step.change()
					if err := test.cause(s, session); err != nil {
						t.Fatal(err)
					}
					for _, want := range step.want {
						if got := waittest.Receive(t, "the call", called); got != want {
							t.Errorf("step %d: %s is called, want %s", i, got, want)
						}
					}
				}
			})
		})
	}
}

// TestListenersWithoutOptions checks that functions get messages if the options have none.
func TestListenersWithoutOptions(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, transporttests.Dialer(t, newLogServer()), client.Options{Era: era, LogLevel: mcp.LevelError})
		got := make(chan *mcp.LoggingMessageParams, 2)
		for range 2 {
			session.OnLog(func(_ context.Context, m *mcp.LoggingMessageParams) { got <- m })
		}
		if _, err := session.CallTool(t.Context(), "talk", stepsIn{1}, nil); err != nil {
			t.Fatal(err)
		}
		first, second := waittest.Receive(t, "the message", got), waittest.Receive(t, "the message", got)
		if diff := cmp.Diff(first, second); diff != "" || first == second || string(first.Data) != `{"message":"dull"}` {
			t.Errorf("the listeners got %s and %s", first.Data, second.Data)
		}
	})
}

func TestLogLevel(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		got := make(chan string, 10)
		session := connect(t, transporttests.Dialer(t, newLogServer()), client.Options{
			Era: era, LogLevel: mcp.LevelError,
			OnLog: func(_ context.Context, m *mcp.LoggingMessageParams) { got <- string(m.Data) },
		})
		if _, err := session.CallTool(t.Context(), "talk", stepsIn{5}, nil); err != nil {
			t.Fatal(err)
		}
		if line := waittest.Receive(t, "the message", got); line != `{"message":"dull"}` {
			t.Errorf("logged below the level: %s", line)
		}
	})
}

// TestSlowLogHandlerLosesOldest checks that the queue of a slow handler is bounded, and that
// nothing else waits.
func TestSlowLogHandlerLosesOldest(t *testing.T) {
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
		}), client.Options{OnLog: func(_ context.Context, m *mcp.LoggingMessageParams) {
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

// TestOnChangeMayCallSession checks that a handler may list what has changed.
func TestOnChangeMayCallSession(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newLogServer()
		var session *client.Session
		type outcome struct {
			names []string
			err   error
		}
		listed := make(chan outcome, 1)
		subscribed := make(chan *client.Subscription, 1)
		session = connect(t, transporttests.Dialer(t, s), client.Options{Era: era, OnChange: func(ctx context.Context, change mcp.Change) {
			var out outcome
			for tool, err := range session.Tools(ctx, nil) {
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
		out := waittest.Receive(t, "the list", listed)
		if diff := cmp.Diff([]string{"new", "talk"}, out.names); out.err != nil || diff != "" {
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

// TestUnknownLogLevelIsRefused checks that Connect rejects an unknown level without connecting.
func TestUnknownLogLevelIsRefused(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		server := &breaker{server: newLogServer()}
		for _, level := range []mcp.LoggingLevel{"loud", "Error", "warn"} {
			session, err := client.Connect(t.Context(), server, &client.Options{Era: era, LogLevel: level})
			if err == nil {
				session.Close()
			}
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("unknown log level %q", level)) {
				t.Errorf("%q: the error is %v", level, err)
			}
		}
		if n := server.dials.Load(); n > 0 {
			t.Errorf("the client has connected %d times", n)
		}
	})
}
