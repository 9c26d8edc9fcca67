package era_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

func homeRoots(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///home"}}, nil }

// tool calls a tool and returns its text.
func tool(t testing.TB, s *client.Session) (string, error) {
	t.Helper()
	return client.CallAs[string](t.Context(), s, "any", map[string]int{"n": 1}, nil)
}

// TestResultType checks that a client refuses results of unknown types.
func TestResultType(t *testing.T) {
	for result, ok := range map[string]bool{
		`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`:                              true,
		`{"content":[{"type":"text","text":"done"}]}`:                                                      true,
		`{"resultType":"task","content":[{"type":"text","text":"done"}]}`:                                  false,
		`{"resultType":"Complete","content":[{"type":"text","text":"done"}]}`:                              false,
		`{"resultType":7,"content":[{"type":"text","text":"done"}]}`:                                       false,
		`{"resultType":null,"content":[{"type":"text","text":"done"}]}`:                                    true,
		`{"resultType":"input_required"}`:                                                                  false,
		`{"resultType":"input_required","inputRequests":[]}`:                                               false,
		`{"resultType":"input_required","inputRequests":{"x":7}}`:                                          false,
		`{"resultType":"input_required","inputRequests":{"x":{"method":"tools/call"}},"requestState":"s"}`: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := eratest.ModernHost(t, func(frame string) []string { return []string{eratest.Reply(frame, result)} })
			said, err := tool(t, session(t, h, &client.Options{Roots: homeRoots}))
			if ok && (err != nil || said != "done") || !ok && err == nil {
				t.Errorf("the result %s gives %q, %v", result, said, err)
			}
			if n := len(h.Calls()); n != 1 {
				t.Errorf("%s: the server got %d calls", result, n)
			}
		})
	}
}

// TestRetry checks that the next round is the same request with a new id, the answers of the
// last round and its state. MCP 2026-07-28, basic/patterns/mrtr.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := []string{
			`{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"},"e":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"a\u0001 \"b\""}`,
			`{"resultType":"input_required","inputRequests":{"second":{"method":"roots/list","params":{}}}}`,
			eratest.Finished,
		}
		h := eratest.ModernHost(t, func(frame string) []string {
			next := rounds[0]
			rounds = rounds[1:]
			return []string{eratest.Reply(frame, next)}
		})
		s := session(t, h, &client.Options{Roots: homeRoots, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}})
		if said, err := tool(t, s); said != "done" || err != nil {
			t.Errorf("the call gives %q, %v", said, err)
		}
		calls := h.Calls()
		if len(calls) != 3 {
			t.Fatalf("the server got %d calls", len(calls))
		}
		ids := make(map[string]bool)
		for _, call := range calls {
			ids[eratest.At(call, "id")] = true
			eratest.Want(t, call, `"any"`, "params", "name")
			eratest.Want(t, call, `{"n":1}`, "params", "arguments")
			eratest.Want(t, call, `"2026-07-28"`, "params", "_meta", mcp.MetaProtocolVersion)
		}
		if len(ids) != 3 {
			t.Errorf("the rounds have %d ids, want one for each", len(ids))
		}
		eratest.Want(t, calls[0], "", "params", "inputResponses")
		eratest.Want(t, calls[0], "", "params", "requestState")
		eratest.Want(t, calls[1], `{"e":{"action":"decline"},"r":{"roots":[{"uri":"file:///home"}]}}`, "params", "inputResponses")
		if got := eratest.Text(calls[1], "params", "requestState"); got != "a\x01 \"b\"" {
			t.Errorf("the state in the next round is %q", got)
		}
		eratest.Want(t, calls[2], `{"second":{"roots":[{"uri":"file:///home"}]}}`, "params", "inputResponses")
		eratest.Want(t, calls[2], "", "params", "requestState") // the last round had no state
	})
}

// TestMaxRounds checks that the number of rounds is limited.
func TestMaxRounds(t *testing.T) {
	for name, test := range map[string]struct {
		round string
		calls int
		asked int
		takes time.Duration
	}{
		"questions":  {eratest.RootsRound, era.MaxRounds + 1, era.MaxRounds, 0},
		"state only": {`{"resultType":"input_required","requestState":"s"}`, 4, 0, time.Minute},
		"empty":      {`{"resultType":"input_required","inputRequests":{},"requestState":"s"}`, 4, 0, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := eratest.ModernHost(t, func(frame string) []string { return []string{eratest.Reply(frame, test.round)} })
				var asked atomic.Int64
				s := session(t, h, &client.Options{Roots: func(ctx context.Context) ([]mcp.Root, error) {
					asked.Add(1)
					return homeRoots(ctx)
				}})
				start := time.Now()
				if said, err := tool(t, s); err == nil {
					t.Errorf("the call gives %q", said)
				}
				if n := len(h.Calls()); n != test.calls || int(asked.Load()) != test.asked {
					t.Errorf("the server got %d calls, and the person was asked %d times; want %d and %d", n, asked.Load(), test.calls, test.asked)
				}
				if took := time.Since(start); took > test.takes || test.takes > 0 && took == 0 {
					t.Errorf("the call took %v", took)
				}
			})
		})
	}
}

// TestRefusedQuestion checks that an undeclared or refused question ends the call at the client.
func TestRefusedQuestion(t *testing.T) {
	refused := errors.New("not today")
	for name, test := range map[string]struct {
		question string
		opts     client.Options
		cause    error
	}{
		"undeclared roots":       {`{"method":"roots/list"}`, client.Options{}, nil},
		"undeclared sampling":    {`{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`, client.Options{Roots: homeRoots}, nil},
		"undeclared elicitation": {`{"method":"elicitation/create","params":{"message":"?"}}`, client.Options{Roots: homeRoots}, nil},
		"undeclared URL": {`{"method":"elicitation/create","params":{"mode":"url","message":"?","url":"https://a.example"}}`, client.Options{
			Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				t.Error("the person is sent to a URL")
				return nil, refused
			},
		}, nil},
		"undeclared tools": {`{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}`, client.Options{
			Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				t.Error("the model is asked")
				return nil, refused
			},
		}, nil},
		"refused sampling": {`{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`, client.Options{
			Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) { return nil, refused },
		}, refused},
		"malformed question": {`{"method":"elicitation/create","params":{"message":7}}`, client.Options{
			Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, refused },
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := eratest.ModernHost(t, func(frame string) []string {
					return []string{eratest.Reply(frame, `{"resultType":"input_required","inputRequests":{"q":`+test.question+`},"requestState":"s"}`)}
				})
				_, err := tool(t, session(t, h, &test.opts))
				if err == nil || test.cause != nil && !errors.Is(err, test.cause) {
					t.Errorf("the call gives %v, want an error that is %v", err, test.cause)
				}
				if n := len(h.Calls()); n != 1 {
					t.Errorf("the server got %d calls", n)
				}
			})
		})
	}
}

// TestQuestionByRequest checks that only a legacy server may ask by a request, and only declared
// questions.
func TestQuestionByRequest(t *testing.T) {
	elicit := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	const unknown, undeclared = jsonrpc.MethodNotFound, jsonrpc.InvalidParams
	for _, test := range []struct {
		name           string
		host           func(testing.TB, func(string) []string) *eratest.Host
		opts           client.Options
		method, params string
		result         string
		code           jsonrpc.Code
	}{
		{"ping", eratest.LegacyHost, client.Options{}, mcp.MethodPing, `{}`, `{}`, 0},
		{"roots", eratest.LegacyHost, client.Options{Roots: homeRoots}, mcp.MethodRootsList, `{}`, `{"roots":[{"uri":"file:///home"}]}`, 0},
		{"form", eratest.LegacyHost, client.Options{Elicit: elicit}, mcp.MethodElicit, `{"message":"?","requestedSchema":{}}`, `{"action":"decline"}`, 0},
		{"undeclared roots", eratest.LegacyHost, client.Options{}, mcp.MethodRootsList, `{}`, "", unknown},
		{"undeclared sampling", eratest.LegacyHost, client.Options{}, mcp.MethodCreateMessage, `{"messages":[],"maxTokens":1}`, "", unknown},
		{"undeclared form", eratest.LegacyHost, client.Options{}, mcp.MethodElicit, `{"message":"?","requestedSchema":{}}`, "", undeclared},
		{"undeclared URL", eratest.LegacyHost, client.Options{Elicit: elicit}, mcp.MethodElicit, `{"mode":"url","message":"?","url":"https://a.example","elicitationId":"1"}`, "", undeclared},
		{"unknown", eratest.LegacyHost, client.Options{}, mcp.MethodToolsList, `{}`, "", unknown},
		{"roots in the modern era", eratest.ModernHost, client.Options{Roots: homeRoots}, mcp.MethodRootsList, `{}`, "", unknown},
		{"form in the modern era", eratest.ModernHost, client.Options{Elicit: elicit}, mcp.MethodElicit, `{"message":"?","requestedSchema":{}}`, "", unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := test.host(t, func(string) []string { return nil })
				session(t, h, &test.opts)
				h.Push(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q","method":%q,"params":%s}`, test.method, test.params))
				synctest.Wait()
				received := h.Received()
				answer := received[len(received)-1]
				eratest.Want(t, answer, `"q"`, "id")
				eratest.Want(t, answer, test.result, "result")
				if test.code != 0 {
					eratest.WantError(t, answer, test.code)
				}
			})
		})
	}
}

// TestClientCancels checks that cancelling the context of a call notifies the server.
func TestClientCancels(t *testing.T) {
	for name, dial := range map[string]func(testing.TB, func(string) []string) *eratest.Host{"modern": eratest.ModernHost, "legacy": eratest.LegacyHost} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := dial(t, func(string) []string { return nil })
				s := session(t, h, nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := s.CallTool(ctx, "slow", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the call gives %v", err)
				}
				synctest.Wait()
				received := h.Received()
				call, cancelled := received[len(received)-2], received[len(received)-1]
				eratest.Want(t, cancelled, `"notifications/cancelled"`, "method")
				eratest.Want(t, cancelled, eratest.At(call, "id"), "params", "requestId")
				if !strings.Contains(eratest.Text(cancelled, "params", "reason"), "deadline") {
					t.Errorf("no reason is given: %s", cancelled)
				}
			})
		})
	}
}

// TestClientProgress checks that a call gets its own progress before it returns, and that
// progress without a call is ignored.
func TestClientProgress(t *testing.T) {
	for name, dial := range map[string]func(testing.TB, func(string) []string) *eratest.Host{"modern": eratest.ModernHost, "legacy": eratest.LegacyHost} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := dial(t, func(frame string) []string {
					token := eratest.At(frame, "params", "_meta", "progressToken")
					progress := func(token, done string) string {
						return notification(mcp.NotificationProgress, `{"progressToken":`+token+`,"progress":`+done+`}`)
					}
					return []string{
						progress(`"stranger"`, "9"), progress(token, "1"), `{"jsonrpc":"2.0","method":"notifications/progress"}`,
						progress(token, `"x"`), progress(token, "2"), eratest.Reply(frame, eratest.Finished),
					}
				})
				var received []float64
				_, err := session(t, h, nil).CallTool(t.Context(), "any", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
					received = append(received, p.Progress)
				}})
				h.Push(notification(mcp.NotificationProgress, `{"progressToken":1,"progress":3}`)) // late
				synctest.Wait()
				if err != nil || !slices.Equal(received, []float64{1, 2}) {
					t.Errorf("the call got the progress %v, %v; want 1 and 2", received, err)
				}
			})
		})
	}
}

func acknowledgement(id, filter string) string {
	return notification(mcp.NotificationAcknowledged, `{"notifications":`+filter+`,"_meta":`+tag(id)+`}`)
}

// changesOf collects the changes that a client receives.
func changesOf(opts *client.Options) *[]mcp.Change {
	var changes []mcp.Change
	opts.OnChange = func(_ context.Context, change mcp.Change) { changes = append(changes, change) }
	return &changes
}

// TestClientListens checks modern subscriptions.
func TestClientListens(t *testing.T) {
	for name, test := range map[string]struct {
		end func(id string) string
		err bool
	}{
		"result": {func(id string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","_meta":` + tag(id) + `}}`
		}, false},
		"cancellation": {func(id string) string { return notification(mcp.NotificationCancelled, `{"requestId":`+id+`}`) }, false},
		"error": {func(id string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32602,"message":"too many"}}`
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var id string
				h := eratest.ModernHost(t, func(frame string) []string {
					id = eratest.At(frame, "id")
					return []string{
						acknowledgement(`"stranger"`, `{"promptsListChanged":true}`),
						acknowledgement(id, `{"toolsListChanged":true}`),
						notification(mcp.NotificationToolsListChanged, `{"_meta":`+tag(id)+`}`),
						notification(mcp.NotificationResourceUpdated, `{"uri":"a:b","_meta":`+tag(id)+`}`),
						notification(mcp.NotificationResourceUpdated, `{}`),
					}
				})
				var opts client.Options
				changes := changesOf(&opts)
				s := session(t, h, &opts)
				sub, err := s.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true})
				if err != nil {
					t.Fatal(err)
				}
				if got := sub.Agreed(); !got.ToolsListChanged || got.PromptsListChanged {
					t.Errorf("the server accepts %+v", got)
				}
				eratest.Pass(24 * time.Hour)
				if want := []mcp.Change{{Kind: mcp.KindTool}, {Kind: mcp.KindResource, URI: "a:b"}}; !slices.Equal(*changes, want) {
					t.Errorf("the client gets %v, want %v", *changes, want)
				}
				h.Push(test.end(id))
				synctest.Wait()
				select {
				case <-sub.Done():
				default:
					t.Fatal("the subscription did not end")
				}
				if err := sub.Err(); (err != nil) != test.err {
					t.Errorf("the subscription ends with %v, want an error: %t", err, test.err)
				}
			})
		})
	}
}

// TestClientStopsListening checks that a client can cancel one of two subscriptions.
func TestClientStopsListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.ModernHost(t, func(frame string) []string {
			return []string{acknowledgement(eratest.At(frame, "id"), `{}`)}
		})
		s := session(t, h, nil)
		var subs []*client.Subscription
		for range 2 {
			sub, err := s.Subscribe(t.Context(), mcp.SubscriptionFilter{})
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, sub)
		}
		subs[0].Close()
		synctest.Wait()
		received := h.Received()
		eratest.Want(t, received[len(received)-1], eratest.At(received[1], "id"), "params", "requestId")
		select {
		case <-subs[1].Done():
			t.Error("the other subscription ends too")
		default:
		}
		if err := subs[1].Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestClientSubscribesAfterUnsubscribe checks that a legacy client subscribes to a resource again only when
// the server has answered that the last subscription has ended, however long that takes: a server may
// handle the two in any order.
func TestClientSubscribesAfterUnsubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unsubscribing := make(chan string, 1)
		h := eratest.NewHost(t, func(frame string) []string {
			switch eratest.Text(frame, "method") {
			case mcp.MethodDiscover:
				return []string{eratest.Fail(frame, jsonrpc.MethodNotFound, "")}
			case mcp.MethodInitialize:
				return []string{eratest.Reply(frame, `{"protocolVersion":"2025-03-26","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"host","version":"1"}}`)}
			case mcp.MethodResourcesUnsubscribe:
				unsubscribing <- frame
				return nil
			case mcp.MethodResourcesSubscribe:
				return []string{eratest.Reply(frame, "{}")}
			}
			return nil
		})
		s := session(t, h, nil)
		book := mcp.SubscriptionFilter{ResourceSubscriptions: []string{"book:1"}}
		first, err := s.Subscribe(t.Context(), book)
		if err != nil {
			t.Fatal(err)
		}
		first.Close()
		frame := <-unsubscribing
		subscribed := make(chan error, 1)
		go func() {
			second, err := s.Subscribe(t.Context(), book)
			if err == nil {
				defer second.Close()
			}
			subscribed <- err
		}()
		<-time.After(20 * time.Second)
		select {
		case err := <-subscribed:
			t.Errorf("the client has subscribed before the server has answered: %v", err)
		default:
			h.Push(eratest.Reply(frame, "{}"))
			if err := <-subscribed; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestClientSubscribes checks legacy subscriptions, which are a request for each resource. A resource
// that does not exist is left out; any other error ends the subscription.
func TestClientSubscribes(t *testing.T) {
	type outcome struct {
		accepted, sent []string
		refused        jsonrpc.Code
	}
	both := []string{"resources/subscribe a:1", "resources/subscribe b:2"}
	tests := []struct {
		refuse string
		code   jsonrpc.Code
		want   outcome
	}{
		{"", 0, outcome{[]string{"a:1", "b:2"}, append(both[:2:2], "resources/unsubscribe a:1", "resources/unsubscribe b:2"), 0}},
		{"b:2", mcp.CodeResourceNotFound, outcome{[]string{"a:1"}, append(both[:2:2], "resources/unsubscribe a:1"), 0}},
		{"a:1", mcp.CodeResourceNotFound, outcome{[]string{"b:2"}, append(both[:2:2], "resources/unsubscribe b:2"), 0}},
		{"b:2", jsonrpc.InvalidParams, outcome{nil, append(both[:2:2], "resources/unsubscribe a:1"), jsonrpc.InvalidParams}},
		{"a:1", jsonrpc.InvalidParams, outcome{nil, both[:1], jsonrpc.InvalidParams}},
	}
	for _, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			h := eratest.NewHost(t, func(frame string) []string {
				switch eratest.Text(frame, "method") {
				case mcp.MethodDiscover:
					return []string{eratest.Fail(frame, jsonrpc.MethodNotFound, "")}
				case mcp.MethodInitialize:
					return []string{eratest.Reply(frame, `{"protocolVersion":"2025-03-26","capabilities":{"resources":{"subscribe":true},"tools":{"listChanged":true}},"serverInfo":{"name":"host","version":"1"}}`)}
				case mcp.NotificationInitialized:
					return nil
				}
				if test.refuse != "" && eratest.Text(frame, "params", "uri") == test.refuse {
					return []string{eratest.Fail(frame, test.code, "")}
				}
				return []string{eratest.Reply(frame, "{}")}
			})
			s := session(t, h, nil)
			sub, err := s.Subscribe(t.Context(), mcp.SubscriptionFilter{
				ToolsListChanged: true, PromptsListChanged: true, ResourceSubscriptions: []string{"a:1", "b:2"},
			})
			var got outcome
			if refused, ok := err.(*jsonrpc.Error); ok {
				got.refused = refused.Code
			} else if err != nil {
				t.Errorf("subscribing gives a %T: %v", err, err)
			} else {
				accepted := sub.Agreed()
				if got.accepted = accepted.ResourceSubscriptions; !accepted.ToolsListChanged || accepted.PromptsListChanged {
					t.Errorf("the server accepts %+v", accepted)
				}
				sub.Close()
			}
			synctest.Wait()
			for _, frame := range h.Received()[3:] {
				got.sent = append(got.sent, fmt.Sprint(eratest.Text(frame, "method"), " ", eratest.Text(frame, "params", "uri")))
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("with %q refused by %v: %+v, want %+v", test.refuse, test.code, got, test.want)
			}
		})
	}
}
