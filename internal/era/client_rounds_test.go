package era_test

import (
	"context"
	"errors"
	"fmt"
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
	return client.CallAs[string](t.Context(), s, "any", map[string]int{"n": 1})
}

// TestResultType: what a client does not know, it does not take for an answer.
func TestResultType(t *testing.T) {
	for result, ok := range map[string]bool{
		`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`:                              true,
		`{"content":[{"type":"text","text":"done"}]}`:                                                      true,
		`{"resultType":"task","content":[{"type":"text","text":"done"}]}`:                                  false,
		`{"resultType":"Complete","content":[{"type":"text","text":"done"}]}`:                              false,
		`{"resultType":7,"content":[{"type":"text","text":"done"}]}`:                                       false,
		`{"resultType":null,"content":[{"type":"text","text":"done"}]}`:                                    false,
		`{"resultType":"input_required"}`:                                                                  false,
		`{"resultType":"input_required","inputRequests":[]}`:                                               false,
		`{"resultType":"input_required","inputRequests":{"x":7}}`:                                          false,
		`{"resultType":"input_required","inputRequests":{"x":{"method":"tools/call"}},"requestState":"s"}`: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := eratest.ModernHost(t, func(frame string) []string { return []string{eratest.Reply(frame, result)} })
			said, err := tool(t, session(t, h, &client.Options{Roots: homeRoots}))
			if ok && (err != nil || said != "done") || !ok && err == nil {
				t.Errorf("%s is taken for %q, %v", result, said, err)
			}
			if n := len(h.Calls()); n != 1 {
				t.Errorf("%s: the call is made %d times", result, n)
			}
		})
	}
}

// TestRetry: the next round is the same request with a new id, the answers of
// this round, and the state as it came. MCP 2026-07-28, basic/patterns/mrtr.
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
			t.Fatalf("the call is made %d times", len(calls))
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
			t.Errorf("the state goes back as %q", got)
		}
		eratest.Want(t, calls[2], `{"second":{"roots":[{"uri":"file:///home"}]}}`, "params", "inputResponses")
		eratest.Want(t, calls[2], "", "params", "requestState") // the round gave none
	})
}

// TestServerNeverContent: a server cannot make a client ask and repeat for ever.
func TestServerNeverContent(t *testing.T) {
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
					t.Errorf("the call is made %d times, and the person asked %d times; want %d and %d", n, asked.Load(), test.calls, test.asked)
				}
				if took := time.Since(start); took > test.takes || test.takes > 0 && took == 0 {
					t.Errorf("it takes %v", took)
				}
			})
		})
	}
}

// TestUnaskable: a question that the client did not declare, or that its user
// refuses, ends the call on this side.
func TestUnaskable(t *testing.T) {
	refused := errors.New("not today")
	for name, test := range map[string]struct {
		question string
		opts     client.Options
		cause    error
	}{
		"undeclared roots":       {`{"method":"roots/list"}`, client.Options{}, nil},
		"undeclared sampling":    {`{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`, client.Options{Roots: homeRoots}, nil},
		"undeclared elicitation": {`{"method":"elicitation/create","params":{"message":"?"}}`, client.Options{Roots: homeRoots}, nil},
		"undeclared visit": {`{"method":"elicitation/create","params":{"mode":"url","message":"?","url":"https://a.example"}}`, client.Options{
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
					t.Errorf("the call is made %d times", n)
				}
			})
		})
	}
}

// TestAskedByRequest: only a legacy server may ask by a request, and only what
// was declared.
func TestAskedByRequest(t *testing.T) {
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
		{"undeclared visit", eratest.LegacyHost, client.Options{Elicit: elicit}, mcp.MethodElicit, `{"mode":"url","message":"?","url":"https://a.example","elicitationId":"1"}`, "", undeclared},
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
				heard := h.Heard()
				answer := heard[len(heard)-1]
				eratest.Want(t, answer, `"q"`, "id")
				eratest.Want(t, answer, test.result, "result")
				if test.code != 0 {
					eratest.WantError(t, answer, test.code)
				}
			})
		})
	}
}

// TestClientCancels: whoever stops waiting tells the server, in both eras.
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
				heard := h.Heard()
				call, cancelled := heard[len(heard)-2], heard[len(heard)-1]
				eratest.Want(t, cancelled, `"notifications/cancelled"`, "method")
				eratest.Want(t, cancelled, eratest.At(call, "id"), "params", "requestId")
				if !strings.Contains(eratest.Text(cancelled, "params", "reason"), "deadline") {
					t.Errorf("no reason is given: %s", cancelled)
				}
			})
		})
	}
}

// TestClientProgress: each call hears its own, before it returns; what is
// nobody's is ignored.
func TestClientProgress(t *testing.T) {
	for name, dial := range map[string]func(testing.TB, func(string) []string) *eratest.Host{"modern": eratest.ModernHost, "legacy": eratest.LegacyHost} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := dial(t, func(frame string) []string {
					token := eratest.At(frame, "params", "_meta", "progressToken")
					progress := func(token, done string) string {
						return told(mcp.NotificationProgress, `{"progressToken":`+token+`,"progress":`+done+`}`)
					}
					return []string{
						progress(`"stranger"`, "9"), progress(token, "1"), `{"jsonrpc":"2.0","method":"notifications/progress"}`,
						progress(token, `"x"`), progress(token, "2"), eratest.Reply(frame, eratest.Finished),
					}
				})
				var heard []float64
				_, err := session(t, h, nil).CallTool(t.Context(), "any", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
					heard = append(heard, p.Progress)
				}})
				h.Push(told(mcp.NotificationProgress, `{"progressToken":1,"progress":3}`)) // late
				synctest.Wait()
				if err != nil || !slices.Equal(heard, []float64{1, 2}) {
					t.Errorf("the call hears %v, %v; want 1 and 2", heard, err)
				}
			})
		})
	}
}
