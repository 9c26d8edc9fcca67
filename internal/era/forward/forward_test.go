package forward_test

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
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// eachPair runs a test in virtual time for each pair of eras of a caller and a server.
func eachPair(t *testing.T, run func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host)) {
	hosts := map[string]func(testing.TB, func(string) []string) *eratest.Host{"legacy": eratest.LegacyHost, "modern": eratest.ModernHost}
	for _, caller := range []mcp.Version{mcp.LatestLegacyVersion, mcp.LatestVersion} {
		for name, upstream := range hosts {
			t.Run(fmt.Sprintf("%s to %s", caller, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { run(t, caller, upstream) })
			})
		}
	}
}

// edit returns an object with members replaced, or removed if the value is "".
func edit(t testing.TB, object string, members ...string) string {
	t.Helper()
	for i := 0; i < len(members); i += 2 {
		edit := jsonscan.Edit{Name: members[i]}
		if members[i+1] != "" {
			edit.Value = []byte(members[i+1])
		}
		out, err := jsonscan.Splice(nil, []byte(object), edit)
		if err != nil {
			t.Fatal(err)
		}
		object = string(out)
	}
	return object
}

// endToEnd returns an object without hop-by-hop members.
func endToEnd(t testing.TB, object string) string {
	t.Helper()
	object = edit(t, object, "resultType", "", "ttlMs", "", "cacheScope", "", "requestState", "", "inputResponses", "")
	meta := eratest.At(object, "_meta")
	if meta == "" {
		return object
	}
	for _, name := range []string{mcp.MetaServerInfo, mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel, mcp.MetaProgressToken} {
		meta = edit(t, meta, name, "")
	}
	if meta == "{}" {
		meta = ""
	}
	return edit(t, object, "_meta", meta)
}

// callAndAnswer makes a call and answers its questions. It returns the params of the questions
// and the response to the call.
func callAndAnswer(p *eratest.Peer, params string, answers ...string) (questions []string, end string) {
	p.T.Helper()
	id := p.Start(mcp.MethodToolsCall, params)
	for {
		frame := p.Next()
		asked := frame
		key := ""
		if p.Version.Modern() {
			requests, err := jsonscan.ReadObject([]byte(eratest.At(frame, "result", "inputRequests")))
			if err != nil {
				return questions, frame
			}
			for m := range requests.All() {
				key, asked = m.Name(), string(m.Value)
			}
		} else if eratest.At(frame, "id") == id && eratest.At(frame, "method") == "" {
			return questions, frame
		}
		questions = append(questions, eratest.At(asked, "params"))
		if len(answers) == 0 {
			p.T.Fatalf("unexpected question: %s", frame)
		}
		answer := answers[0]
		answers = answers[1:]
		if !p.Version.Modern() {
			if strings.HasPrefix(answer, "{") {
				p.Send(eratest.Reply(frame, answer))
			} else {
				p.Send(eratest.Fail(frame, -1, ""))
			}
			continue
		}
		p.Start(mcp.MethodToolsCall, edit(p.T, params, "requestState", eratest.At(frame, "result", "requestState"),
			"inputResponses", string(jsonscan.AppendString([]byte("{"), key))+":"+answer+"}"))
	}
}

const (
	oddParams = `{"zeta":1e400,"name":"t","arguments":{"b":1,"a":9007199254740993,"n":-1E400,"s":"\u00e9\/é","d":{"x" : [1.0,-0]}},"extra":{"k" : [ 1 ,2 ]},"_meta":{"example.com/b":{"b":1,"a":1e400},"traceparent":"x"}}`
	oddResult = `{"x" : 1e400,"content":[{"type":"hologram","b":{"b":1,"a":9007199254740993}},{"type":"text","text":"\u00e9\/é","_meta":{"v" : 1}}],"structuredContent":{"z":9007199254740993,"a":[1E5]},"_meta":{"example.com/r":{"q" : 1}},"isError":false}`
	oddError  = `{"code":-32099,"message":"no é","data":{"z":1e400,"a":[ 9007199254740993 ]}}`
)

// TestForwardBytes checks that end-to-end members pass unchanged in both directions.
func TestForwardBytes(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		h := upstream(t, func(frame string) []string {
			if eratest.Text(frame, "params", "name") == "fail" {
				return []string{`{"jsonrpc":"2.0","id":` + eratest.At(frame, "id") + `,"error":` + oddError + `}`}
			}
			return []string{eratest.Reply(frame, oddResult)}
		})
		p := eratest.Open(t, newProxy(forwarding(t, h, nil), nil), caller, eratest.Askable)
		got := p.Call(mcp.MethodToolsCall, oddParams)
		if said, want := endToEnd(t, eratest.At(got, "result")), oddResult; said != want {
			t.Errorf("the caller gets\n%s, want\n%s", said, want)
		}
		if said := endToEnd(t, eratest.At(h.Calls()[0], "params")); said != oddParams {
			t.Errorf("the server gets\n%s, want\n%s", said, oddParams)
		}
		eratest.Want(t, p.Call(mcp.MethodToolsCall, `{"name":"fail"}`), oddError, "error")
	})
}

// TestForwardMeta checks that reserved members of _meta are not forwarded, even with escapes in
// their names.
func TestForwardMeta(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		h := upstream(t, func(frame string) []string { return []string{eratest.Reply(frame, eratest.Finished)} })
		p := eratest.Open(t, newProxy(forwarding(t, h, nil), nil), caller, eratest.Askable)
		p.Call(mcp.MethodToolsCall, `{"name":"t","_meta":{"a":1,"progress\u0054oken":"mine","io.modelcontextprotocol\/subscriptionId":7,"io.modelcontextprotocol/anything":7}}`)
		meta := eratest.At(h.Calls()[0], "params", "_meta")
		eratest.Want(t, meta, "1", "a")
		eratest.Want(t, meta, "1", "progressToken")
		eratest.Want(t, meta, "", mcp.MetaSubscriptionID)
		eratest.Want(t, meta, "", "io.modelcontextprotocol/anything")
		eratest.WantIf(t, meta, h.IsModern(), mcp.MetaProtocolVersion)
		if h.IsModern() {
			eratest.Want(t, meta, `"dovetail"`, mcp.MetaClientInfo, "name")
			eratest.WantIf(t, meta, true, mcp.MetaClientCapabilities, "elicitation")
		}
		if _, err := jsonscan.ReadObject([]byte(meta)); err != nil {
			t.Errorf("%s: %v", meta, err)
		}
	})
}

// TestForwardCaller checks that a modern server gets the caller's capabilities and no others.
func TestForwardCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.ModernHost(t, func(frame string) []string { return []string{eratest.Reply(frame, eratest.Finished)} })
		proxy := newProxy(forwarding(t, h, nil), nil)
		for _, can := range []string{"{}", `{"roots":{}}`, `{"elicitation":{"form":{}}}`} {
			for _, caller := range []mcp.Version{mcp.LatestLegacyVersion, mcp.LatestVersion} {
				eratest.Open(t, proxy, caller, can).Call(mcp.MethodToolsCall, `{"name":"t"}`)
				calls := h.Calls()
				eratest.Want(t, calls[len(calls)-1], can, "params", "_meta", mcp.MetaClientCapabilities)
			}
		}
	})
}

// TestForwardName checks that Options.Name replaces the name and nothing else.
func TestForwardName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.LegacyHost(t, func(frame string) []string {
			return []string{eratest.Reply(frame, `{"content":[],"completion":{"values":[]}}`)}
		})
		p := eratest.Open(t, newProxy(forwarding(t, h, nil), &client.ForwardOptions{Name: `th"eirs`}), mcp.LatestLegacyVersion, "{}")
		p.Call(mcp.MethodToolsCall, `{"arguments":{"name":"ours"},"n\u0061me":"ours","x":1}`)
		p.Call(mcp.MethodComplete, `{"ref":{"x":1,"name":"ours","type":"ref/prompt"},"argument":{"name":"a","value":"v"}}`)
		var got []string
		for _, frame := range h.Received() {
			if m := eratest.Text(frame, "method"); m == mcp.MethodToolsCall || m == mcp.MethodComplete {
				got = append(got, eratest.At(frame, "params"))
			}
		}
		wanted := []string{
			`{"arguments":{"name":"ours"},"n\u0061me":"th\"eirs","x":1}`,
			`{"ref":{"x":1,"name":"th\"eirs","type":"ref/prompt"},"argument":{"name":"a","value":"v"}}`,
		}
		if !slices.Equal(got, wanted) {
			t.Errorf("the server gets %s, want %s", got, wanted)
		}
	})
}

// TestForwardVariants checks that case variants of reserved names are refused.
func TestForwardVariants(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		h := upstream(t, func(frame string) []string { return []string{eratest.Reply(frame, eratest.Finished)} })
		p := eratest.Open(t, newProxy(forwarding(t, h, nil), nil), caller, eratest.Askable)
		for _, params := range []string{
			`{"name":"t","Name":"other"}`,
			`{"NAME":"t"}`,
			`{"name":"t","N\u0061me":"other"}`,
			`{"name":"t","Arguments":{}}`,
			`{"name":"t","argument\u017f":{}}`,
			`{"name":"t","argumentſ":{}}`,
			`{"uri":"a:b","uRI":"c:d"}`,
			`{"name":"t","_Meta":{}}`,
			`{"name":"t","RequestState":"s"}`,
			`{"name":"t","inputresponses":{}}`,
			`{"name":"t","_meta":{"ProgressToken":1}}`,
			`{"name":"t","_meta":{"progressToKen":1}}`,
			`{"name":"t","_meta":{"io.modelcontextprotocol/ClientInfo":1}}`,
		} {
			eratest.WantError(t, p.Call(mcp.MethodToolsCall, params), jsonrpc.InvalidParams)
		}
		for _, params := range []string{
			`{"ref":{"type":"ref/prompt","Name":"x"},"argument":{}}`,
			`{"ref":{"type":"ref/prompt","name":"x","nAme":"y"},"argument":{}}`,
			`{"ref":{"type":"ref/prompt","name":"x"},"argument":{"Value":"y"}}`,
		} {
			eratest.WantError(t, p.Call(mcp.MethodComplete, params), jsonrpc.InvalidParams)
		}
		if calls := h.Calls(); len(calls) > 0 {
			t.Errorf("the server gets %s", calls)
		}
		p.Call(mcp.MethodToolsCall, `{"name":"t","arguments":{"Name":1,"name":2},"names":1,"_meta":{"Vendor":1,"vendor":2}}`)
		if n := len(h.Calls()); n != 1 {
			t.Errorf("the server gets %d calls, want only the unambiguous one", n)
		}
	})
}

// serverQuestions has a question of each kind.
var serverQuestions = map[string]string{
	"a form":      `{"method":"elicitation/create","params":{"x":1e400,"message":"Sure \u00e9?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}},"$comment":"kept"}}}`,
	"a URL":       `{"method":"elicitation/create","params":{"url":"https://example.com/x","x" : [1],"mode":"url","message":"Go","elicitationId":"7"}}`,
	"the model":   `{"method":"sampling/createMessage","params":{"z":1,"messages":[{"role":"user","content":{"type":"hologram","a":1e400}}],"maxTokens":10}}`,
	"directories": `{"method":"roots/list","params":{"_meta":{"b":1,"a":2}}}`,
}

// TestForwardQuestions checks that two questions of each kind and their answers pass unchanged
// in every pair of eras. A legacy server is called once, a modern one for each round.
func TestForwardQuestions(t *testing.T) {
	answers := []string{`{"action":"accept","content":{"n":9007199254740993},"x" : 1e400}`, `{"action":"decline","_meta":{"b":1,"a":2}}`, `{"action":"cancel"}`}
	for name, asks := range serverQuestions {
		for i, first := range answers {
			second := answers[(i+1)%len(answers)]
			t.Run(name, func(t *testing.T) {
				eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
					var call string
					var said []string
					h := upstream(t, func(frame string) []string {
						if eratest.Text(frame, "method") != mcp.MethodToolsCall {
							said = append(said, eratest.At(frame, "result"))
						} else if eratest.At(frame, "params", "_meta", mcp.MetaProtocolVersion) != "" {
							if answer := eratest.At(frame, "params", "inputResponses", "q"); answer != "" {
								eratest.Want(t, frame, fmt.Sprintf(`"s%d\u0001"`, len(said)), "params", "requestState")
								said = append(said, answer)
							}
							if len(said) < 2 {
								return []string{eratest.Reply(frame, fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"q":%s},"requestState":"s%d\u0001"}`, asks, len(said)))}
							}
							return []string{eratest.Reply(frame, eratest.Finished)}
						} else {
							call = frame
						}
						if len(said) < 2 {
							return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s`, len(said), asks[1:])}
						}
						return []string{eratest.Reply(call, eratest.Finished)}
					})
					p := eratest.Open(t, newProxy(forwarding(t, h, nil), nil), caller, eratest.Askable)
					questions, end := callAndAnswer(p, oddParams, first, second)
					if got := eratest.Text(end, "result", "content", "0", "text"); got != "done" {
						t.Errorf("the call ends in %s", end)
					}
					wanted := eratest.At(asks, "params")
					if !slices.Equal(questions, []string{wanted, wanted}) {
						t.Errorf("the caller is asked\n%s, want twice\n%s", questions, wanted)
					}
					if !slices.Equal(said, []string{first, second}) {
						t.Errorf("the server gets %s, want %s", said, []string{first, second})
					}
					calls := 1
					if h.IsModern() {
						calls = 3
					}
					if n := len(h.Calls()); n != calls {
						t.Errorf("the server is called %d times, want %d", n, calls)
					}
					for _, frame := range h.Calls() {
						if got := endToEnd(t, eratest.At(frame, "params")); got != oddParams {
							t.Errorf("the server gets\n%s, want\n%s", got, oddParams)
						}
					}
				})
			})
		}
	}
}

// TestForwardRefusal checks that a legacy caller may answer a question with an error.
func TestForwardRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		p := eratest.Open(t, newProxy(forwarding(t, a.Host, nil), nil), mcp.LatestLegacyVersion, eratest.Askable)
		_, end := callAndAnswer(p, asksOnce, "error")
		eratest.Want(t, end, `[-1]`, "result", "said")

		h := eratest.ModernHost(t, func(frame string) []string { return []string{eratest.Reply(frame, eratest.RootsRound)} })
		p = eratest.Open(t, newProxy(forwarding(t, h, nil), nil), mcp.LatestLegacyVersion, eratest.Askable)
		_, end = callAndAnswer(p, asksOnce, "error")
		eratest.WantError(t, end, -1)
		if n := len(h.Calls()); n != 1 {
			t.Errorf("the server is called %d times", n)
		}
	})
}

// TestForwardServerLabel checks that the question names the server.
func TestForwardServerLabel(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		var call string
		h := upstream(t, func(frame string) []string {
			switch {
			case eratest.Text(frame, "method") != mcp.MethodToolsCall:
				return []string{eratest.Reply(call, eratest.Finished)}
			case eratest.At(frame, "params", "inputResponses") != "":
				return []string{eratest.Reply(frame, eratest.Finished)}
			case eratest.At(frame, "params", "_meta", mcp.MetaProtocolVersion) == "":
				call = frame
				return []string{question("1")}
			}
			return []string{eratest.Reply(frame, `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}}}`)}
		})
		p := eratest.Open(t, newProxy(forwarding(t, h, nil), &client.ForwardOptions{ServerLabel: `the "shop"`}), caller, eratest.Askable)
		questions, end := callAndAnswer(p, `{"name":"t"}`, accepted)
		if len(questions) != 1 || eratest.Text(questions[0], "message") != `the "shop": Sure?` {
			t.Errorf("the caller is asked %s", questions)
		}
		eratest.Want(t, end, `"done"`, "result", "content", "0", "text")
	})
}

// TestForwardCancel checks that cancelling a call cancels it at the server.
func TestForwardCancel(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		h := upstream(t, func(string) []string { return nil })
		for _, can := range []string{eratest.Askable, "{}"} {
			p := eratest.Open(t, newProxy(forwarding(t, h, nil), nil), caller, can)
			id := p.Start(mcp.MethodToolsCall, `{"name":"t"}`)
			synctest.Wait()
			calls := h.Calls()
			p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
			p.ExpectSilence()
			cancelled := h.Cancelled()
			if len(cancelled) != len(calls) || cancelled[len(cancelled)-1] != eratest.At(calls[len(calls)-1], "id") {
				t.Errorf("cancelled are %v, want the call of %s", cancelled, calls)
			}
		}
	})
}

// TestForwardTimeout checks that the call is cancelled at the server after the timeout.
func TestForwardTimeout(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		h := upstream(t, func(string) []string { return nil })
		s := forwarding(t, h, nil)
		for _, can := range []mcp.ClientCapabilities{{}, allCapabilities} {
			for timeout, bound := range map[time.Duration]time.Duration{0: time.Minute, 3 * time.Second: 3 * time.Second} {
				c := newTestCall("ann", `{"name":"t"}`)
				c.caller = &mcp.Caller{Version: caller, Capabilities: can}
				began := time.Now()
				_, err := c.run(t.Context(), s, &client.ForwardOptions{Timeout: timeout})
				failed, ok := errors.AsType[*jsonrpc.CallError](err)
				if !ok || failed.Delivery != jsonrpc.MaybeExecuted || time.Since(began) != bound {
					t.Errorf("after %v the error is %v, want %v", time.Since(began), err, bound)
				}
			}
		}
		synctest.Wait()
		if n := len(h.Cancelled()); n != 4 {
			t.Errorf("%d calls are cancelled, want 4", n)
		}
	})
}

// An endlessContext is a context of another package. Package context starts a goroutine for each context that is derived
// from it, which ends with that context.
type endlessContext struct {
	context.Context
	done chan struct{}
}

func (c endlessContext) Done() <-chan struct{} { return c.done }

// TestForwardReleasesContext checks that a call that has ended leaves nothing at the context of its caller: a goroutine
// would outlive the test.
func TestForwardReleasesContext(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		h := upstream(t, func(frame string) []string { return []string{eratest.Reply(frame, eratest.Finished)} })
		s := forwarding(t, h, nil)
		for _, can := range []mcp.ClientCapabilities{{}, allCapabilities} {
			c := newTestCall("ann", `{"name":"t"}`)
			c.caller = &mcp.Caller{Version: caller, Capabilities: can}
			ctx := endlessContext{context.Background(), make(chan struct{})}
			if _, err := c.run(ctx, s, &client.ForwardOptions{Timeout: time.Hour}); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestForwardAmbiguousMeta checks that _meta with a duplicate member is refused, not left out. Package jsonrpc refuses it
// in requests that it has decoded, but not in others.
func TestForwardAmbiguousMeta(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		h := upstream(t, func(frame string) []string { return []string{eratest.Reply(frame, eratest.Finished)} })
		req := &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: mcp.MethodToolsCall, Params: []byte(`{"name":"t","_meta":{"x":1,"x":2}}`)}
		call := mcp.NewCall(req, &mcp.Caller{Version: caller}, newTestCall("ann", ""))
		if _, err := forwarding(t, h, nil).Forward(t.Context(), &call, nil); err == nil || len(h.Calls()) > 0 {
			t.Errorf("the server gets %s, and the error is %v", h.Calls(), err)
		}
	})
}

// TestForwardStateOnly checks that a failed repetition of a request counts as maybe executed.
func TestForwardStateOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		h := eratest.ModernHost(t, func(frame string) []string {
			requests++
			return []string{eratest.Reply(frame, `{"resultType":"input_required","requestState":"s"}`), eratest.Exit}
		})
		s := session(t, h, &client.Options{Capabilities: &allCapabilities})
		_, err := newTestCall("ann", `{"name":"t"}`).run(t.Context(), s, nil)
		failed, ok := errors.AsType[*jsonrpc.CallError](err)
		if !ok || failed.Delivery != jsonrpc.MaybeExecuted || requests != 1 {
			t.Errorf("after %d requests the error is %v", requests, err)
		}
	})
}

// TestForwardBusy checks that a refusal with Busy counts as rejected.
func TestForwardBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.LegacyHost(t, func(frame string) []string { return []string{eratest.Fail(frame, jsonrpc.Busy, "")} })
		_, err := newTestCall("ann", `{"name":"t"}`).run(t.Context(), forwarding(t, h, nil), nil)
		if failed, ok := errors.AsType[*jsonrpc.CallError](err); !ok || failed.Delivery != jsonrpc.Rejected {
			t.Errorf("the error is %v, want a rejected call", err)
		}
	})
}
