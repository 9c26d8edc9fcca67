package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// answering is a server that answers the first call of a tool with answer, and later ones normally.
func answering(answer func(req *jsonrpc.Request) []string) script {
	asked := false
	return func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodToolsCall {
			return nil
		}
		if asked {
			return []string{result(req, text("well"))}
		}
		asked = true
		return answer(req)
	}
}

// checkSession checks that a session still works.
func checkSession(t *testing.T, session *client.Session) {
	t.Helper()
	if got, err := client.CallAs[string](t.Context(), session, "x", nil, nil); err != nil || got != "well" {
		t.Errorf("the session does not go on: %q, %v", got, err)
	}
}

// TestInvalidResults checks that an invalid result is a typed error, and that the session
// continues.
func TestInvalidResults(t *testing.T) {
	results := map[string]string{
		"a string":    `"x"`,
		"null":        `null`,
		"a list":      `[]`,
		"wrong types": `{"resultType":"complete","content":"x"}`,
		"twice":       `{"resultType":"complete","content":[],"content":[]}`,
		"deep":        `{"resultType":"complete","content":[],"x":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `,"isError":1}`,
	}
	for name, value := range results {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				session := connect(t, answering(func(req *jsonrpc.Request) []string { return []string{result(req, value)} }), client.Options{Era: era})
				got, err := session.CallTool(t.Context(), "x", nil, nil)
				if got != nil {
					t.Errorf("the result is %s", raw(t, got))
				}
				failed(t, err, jsonrpc.MaybeExecuted)
				if code(err) != 0 {
					t.Errorf("%v looks like an error that the server sent", err)
				}
				checkSession(t, session)
			})
		})
	}
}

func TestUnknownResultTypes(t *testing.T) {
	for name, kind := range map[string]string{"unknown": `"later"`, "number": `1`, "empty": `""`} {
		t.Run(name, func(t *testing.T) {
			session := connect(t, answering(func(req *jsonrpc.Request) []string {
				return []string{result(req, `{"resultType":`+kind+`,"content":[]}`)}
			}), client.Options{Era: client.Modern})
			_, err := session.CallTool(t.Context(), "x", nil, nil)
			failed(t, err, jsonrpc.MaybeExecuted)
			checkSession(t, session)
		})
	}
}

// TestInvalidResponses checks that messages that are no responses are skipped.
func TestInvalidResponses(t *testing.T) {
	frames := map[string]string{
		"wrong id":       `{"jsonrpc":"2.0","id":4711,"result":` + text("forged") + `}`,
		"null id":        `{"jsonrpc":"2.0","id":null,"result":{}}`,
		"no id":          `{"jsonrpc":"2.0","result":{}}`,
		"no version":     `{"result":{}}`,
		"list":           `[]`,
		"batch":          `[{"jsonrpc":"2.0","id":4711,"result":{}}]`,
		"not JSON":       `}{`,
		"banner":         `Server started on port 80`,
		"empty":          ``,
		"unknown notice": notification("notifications/unheard-of", `{"a":1}`),
		"odd notice":     notification(mcp.NotificationResourceUpdated, `{"uri":7}`),
		"odd ack":        notification(mcp.NotificationAcknowledged, `{"_meta":{"`+mcp.MetaSubscriptionID+`":[]}}`),
		"odd cancel":     notification(mcp.NotificationCancelled, `{"requestId":{}}`),
		"odd log":        notification(mcp.NotificationMessage, `[]`),
	}
	for name, frame := range frames {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				opts := client.Options{Era: era, OnChange: func(context.Context, mcp.Change) {}, OnLog: func(context.Context, *mcp.LoggingMessageParams) {}}
				session := connect(t, answering(func(req *jsonrpc.Request) []string {
					return []string{frame, result(req, text("true"))}
				}), opts)
				if got, err := client.CallAs[string](t.Context(), session, "x", nil, nil); err != nil || got != "true" {
					t.Errorf("%q, %v", got, err)
				}
				checkSession(t, session)
			})
		})
	}
}

// TestMalformedAnswers checks that a malformed response with the right id fails its call
// immediately.
func TestMalformedAnswers(t *testing.T) {
	for name, members := range map[string]string{
		"both":            `"result":{"content":[]},"error":{"code":1,"message":"m"}`,
		"neither":         `"note":1`,
		"error of a list": `"error":[1]`,
		"error twice":     `"error":{"code":1,"code":2,"message":"m"}`,
	} {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				synctest.Test(t, func(t *testing.T) {
					session := connect(t, answering(func(req *jsonrpc.Request) []string {
						return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, req.ID, members)}
					}), client.Options{Era: era})
					begun := time.Now()
					_, err := session.CallTool(t.Context(), "x", nil, nil)
					failed(t, err, jsonrpc.MaybeExecuted)
					if code(err) != 0 {
						t.Errorf("%v looks like an error that the server sent", err)
					}
					if took := time.Since(begun); took > time.Minute {
						t.Errorf("the call waited %v", took)
					}
					checkSession(t, session)
				})
			})
		})
	}
}

// TestSecondAnswerIsDropped checks that the first answer is used.
func TestSecondAnswerIsDropped(t *testing.T) {
	session := connect(t, answering(func(req *jsonrpc.Request) []string {
		return []string{result(req, text("first")), result(req, text("second")), failure(req, jsonrpc.InternalError, "third")}
	}), client.Options{})
	if got, err := client.CallAs[string](t.Context(), session, "x", nil, nil); err != nil || got != "first" {
		t.Errorf("%q, %v", got, err)
	}
	checkSession(t, session)
}

func TestPeerErrorsAreKept(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, answering(func(req *jsonrpc.Request) []string {
			return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-42,"message":"no \u001b[31mwood","data":{"left": 1.50}}}`, req.ID)}
		}), client.Options{Era: era})
		_, err := session.CallTool(t.Context(), "x", nil, nil)
		refusal, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || refusal.Code != -42 || refusal.Message != "no \x1b[31mwood" || string(refusal.Data) != `{"left": 1.50}` {
			t.Fatalf("the error is %#v", err)
		}
		if strings.Contains(err.Error(), "\x1b") {
			t.Errorf("the peer can write to a terminal: %q", err)
		}
		checkSession(t, session)
	})
}

// TestUnknownMembersAreKept checks that unknown content and members stay unchanged.
func TestUnknownMembersAreKept(t *testing.T) {
	const hologram = `{"type":"hologram","depth": 1.50,"nested":{"b":1,"a":2}}`
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, answering(func(req *jsonrpc.Request) []string {
			return []string{result(req, `{"resultType":"complete","content":[`+hologram+`,{"type":"text","text":"t","hue":"red"}],"weight":1e3,"_meta":{"x":[1]}}`)}
		}), client.Options{Era: era})
		got, err := session.CallTool(t.Context(), "x", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if unknown, ok := got.Content[0].(*mcp.UnknownContent); !ok || string(unknown.Raw) != hologram {
			t.Errorf("the content is %#v", got.Content[0])
		}
		again := raw(t, got)
		for _, want := range []string{hologram, `"hue":"red"`, `"weight":1e3`, `"_meta":{"x":[1]}`} {
			if !strings.Contains(again, want) {
				t.Errorf("%s is lost in %s", want, again)
			}
		}
	})
}

func TestHugeResults(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		huge := strings.Repeat("x", 4<<20)
		session := connect(t, answering(func(req *jsonrpc.Request) []string { return []string{result(req, text(huge))} }), client.Options{Era: era})
		if got, err := client.CallAs[string](t.Context(), session, "x", nil, nil); err != nil || got != huge {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		checkSession(t, session)
	})
}

const question = `"k":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`

func TestRounds(t *testing.T) {
	tests := map[string]struct {
		result   string
		requests int // how often the server is called
		asked    int // how often the person is
		err      string
	}{
		"endless questions":    {`{"resultType":"input_required","requestState":"s","inputRequests":{` + question + `}}`, 11, 10, "asked more than 10 times"},
		"questions, no state":  {`{"resultType":"input_required","inputRequests":{` + question + `}}`, 11, 10, "asked more than 10 times"},
		"endless state":        {`{"resultType":"input_required","requestState":"s"}`, 4, 0, "without a question"},
		"neither":              {`{"resultType":"input_required"}`, 1, 0, "without a question"},
		"questions of a list":  {`{"resultType":"input_required","inputRequests":[]}`, 1, 0, "the server's question"},
		"question of a string": {`{"resultType":"input_required","inputRequests":{"k":"elicitation/create"}}`, 1, 0, "the server's question"},
		"state of a number":    {`{"resultType":"input_required","requestState":1,"inputRequests":{` + question + `}}`, 1, 0, "the server's question"},
		"unknown question":     {`{"resultType":"input_required","inputRequests":{"k":{"method":"example/x"}}}`, 1, 0, "example/x"},
		"bad question":         {`{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":1}}}}`, 1, 0, "message"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests, asked := 0, 0
				done := false
				session := connect(t, script(func(req *jsonrpc.Request) []string {
					switch {
					case req.Method != mcp.MethodToolsCall:
						return nil
					case done:
						return []string{result(req, text("well"))}
					}
					requests++
					return []string{result(req, test.result)}
				}), client.Options{Era: client.Modern, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					asked++
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{}`)}, nil
				}})
				_, err := session.CallTool(t.Context(), "x", nil, nil)
				if call := failed(t, err, jsonrpc.MaybeExecuted); !strings.Contains(call.Error(), test.err) {
					t.Errorf("the error is %q, want one that says %q", call, test.err)
				}
				if requests != test.requests || asked != test.asked {
					t.Errorf("%d requests and %d questions, want %d and %d", requests, asked, test.requests, test.asked)
				}
				done = true
				checkSession(t, session)
			})
		})
	}
}

// TestStateOnlyRounds checks that a server may ask for a retry a few times.
func TestStateOnlyRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var states []string
		session := connect(t, script(func(req *jsonrpc.Request) []string {
			if req.Method != mcp.MethodToolsCall {
				return nil
			}
			states = append(states, string(req.Member("requestState"))+string(req.Member("inputResponses")))
			if len(states) == 4 {
				return []string{result(req, text("well"))}
			}
			return []string{result(req, fmt.Sprintf(`{"resultType":"input_required","requestState":"s%d \"\u00e9"}`, len(states)))}
		}), client.Options{Era: client.Modern})
		checkSession(t, session)
		if got := strings.Join(states, "; "); got != `; "s1 \"é"; "s2 \"é"; "s3 \"é"` {
			t.Errorf("the states that came back are %s", got)
		}
	})
}

// TestForbiddenQuestions checks that only some methods may ask.
func TestForbiddenQuestions(t *testing.T) {
	session := connect(t, script(func(req *jsonrpc.Request) []string {
		if req.Method == mcp.MethodToolsList {
			return []string{result(req, `{"resultType":"input_required","requestState":"s","inputRequests":{`+question+`}}`)}
		}
		return nil
	}), client.Options{Era: client.Modern, Elicit: elicits(mcp.ElicitDecline, "")})
	_, err := toolNames(t, session)
	failed(t, err, jsonrpc.MaybeExecuted)
}

// TestLegacyResultsHaveNoType checks that resultType is ignored in the legacy era.
func TestLegacyResultsHaveNoType(t *testing.T) {
	session := connect(t, answering(func(req *jsonrpc.Request) []string {
		return []string{result(req, `{"resultType":"later","content":[{"type":"text","text":"now"}]}`)}
	}), client.Options{Era: client.Legacy})
	if got, err := client.CallAs[string](t.Context(), session, "x", nil, nil); err != nil || got != "now" {
		t.Errorf("%q, %v", got, err)
	}
}
