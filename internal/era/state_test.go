package era_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// begin makes the first request of a call that asks, and returns its result.
func begin(p *eratest.Peer, params string) (round string) {
	p.T.Helper()
	round = p.Call(mcp.MethodToolsCall, params)
	eratest.Want(p.T, round, `"input_required"`, "result", "resultType")
	return round
}

func modern(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func TestStateOfAnotherCall(t *testing.T) {
	modern(t, func(t *testing.T) {
		s := newAskingServer(nil)
		alice := eratest.ConnectAs(t, s, "alice")
		alice.Version, alice.Capabilities = mcp.LatestVersion, eratest.Askable
		bob := eratest.ConnectAs(t, s, "bob")
		bob.Version, bob.Capabilities = mcp.LatestVersion, eratest.Askable
		again := eratest.ConnectAs(t, s, "alice")
		again.Version, again.Capabilities = mcp.LatestVersion, eratest.Askable

		const params = `{"name":"three","arguments":{"n":1}}`
		round := begin(alice, params)
		for _, test := range []struct {
			name   string
			by     *eratest.Peer
			method string
			params string
			ok     bool
		}{
			{"same call", alice, mcp.MethodToolsCall, params, true},
			{"same call on another connection", again, mcp.MethodToolsCall, params, true},
			{"same call with other metadata", alice, mcp.MethodToolsCall, `{"name":"three","arguments":{"n":1},"_meta":{"progressToken":5}}`, true},
			{"another caller", bob, mcp.MethodToolsCall, params, false},
			{"other arguments", alice, mcp.MethodToolsCall, `{"name":"three","arguments":{"n":2}}`, false},
			{"no arguments", alice, mcp.MethodToolsCall, `{"name":"three"}`, false},
			{"another tool", alice, mcp.MethodToolsCall, `{"name":"twin","arguments":{"n":1}}`, false},
			{"another method", alice, mcp.MethodResourcesRead, `{"uri":"three"}`, false},
		} {
			answer := test.by.Call(test.method, retried(test.params, round, answers))
			if !test.ok {
				if eratest.At(answer, "error", "code") != "-32602" {
					t.Errorf("%s: the state is accepted: %s", test.name, answer)
				}
				continue
			}
			if eratest.At(answer, "result", "inputRequests", "roots") == "" {
				t.Errorf("%s: the state is refused: %s", test.name, answer)
			}
		}
	})
}

// TestStateOfOtherKind checks that the state of a tool is not valid for a prompt with the same name
// and arguments.
func TestStateOfOtherKind(t *testing.T) {
	modern(t, func(t *testing.T) {
		p := eratest.Open(t, newAskingServer(nil), mcp.LatestVersion, eratest.Askable)
		const params = `{"name":"twin","arguments":{}}`
		round := begin(p, params)
		eratest.WantError(t, p.Call(mcp.MethodPromptsGet, retried(params, round, answers)), jsonrpc.InvalidParams)
		eratest.Want(t, p.Call(mcp.MethodToolsCall, retried(params, round, answers)), `"twin"`, "result", "content", "0", "text")
	})
}

func TestTamperedState(t *testing.T) {
	modern(t, func(t *testing.T) {
		p := eratest.Open(t, newAskingServer(nil), mcp.LatestVersion, eratest.Askable)
		const params = `{"name":"three"}`
		state := eratest.Text(begin(p, params), "result", "requestState")
		with := func(raw string) string {
			changed, err := jsonscan.Splice(nil, []byte(params), jsonscan.Edit{Name: "requestState", Value: []byte(raw)})
			if err != nil {
				t.Fatal(err)
			}
			return p.Call(mcp.MethodToolsCall, string(changed))
		}
		for i := range state {
			other := byte('A')
			if state[i] == other {
				other = 'B'
			}
			eratest.WantError(t, with(`"`+state[:i]+string(other)+state[i+1:]+`"`), jsonrpc.InvalidParams)
		}
		for _, raw := range []string{`""`, `7`, `{}`, `"x"`, `"` + state + `x"`, `"` + state[1:] + `"`, `"` + strings.Repeat("A", 1<<20) + `"`} {
			eratest.WantError(t, with(raw), jsonrpc.InvalidParams)
		}
		eratest.Want(t, with(`"`+state+`"`), `"input_required"`, "result", "resultType") // the unchanged state is valid
	})
}

func TestExpiredState(t *testing.T) {
	modern(t, func(t *testing.T) {
		p := eratest.Open(t, newAskingServer(nil), mcp.LatestVersion, eratest.Askable)
		const params = `{"name":"three"}`
		round := begin(p, params)
		eratest.Pass(era.StateLifetime - time.Second)
		eratest.Want(t, p.Call(mcp.MethodToolsCall, retried(params, round, answers)), `"input_required"`, "result", "resultType")
		eratest.Pass(time.Second)
		late := p.Call(mcp.MethodToolsCall, retried(params, round, answers))
		eratest.WantError(t, late, jsonrpc.InvalidParams)
		if !strings.Contains(eratest.Text(late, "error", "message"), "expired") {
			t.Errorf("the error does not say that the state has expired: %s", late)
		}
	})
}

// TestReplicas checks that only a server with the same keys can continue a call.
func TestReplicas(t *testing.T) {
	modern(t, func(t *testing.T) {
		key, other := []byte(strings.Repeat("k", 32)), []byte(strings.Repeat("o", 32))
		const params = `{"name":"three"}`
		open := func(keys ...[]byte) *eratest.Peer {
			return eratest.Open(t, newAskingServer(&server.Options{StateKeys: keys}), mcp.LatestVersion, eratest.Askable)
		}
		first := open(key)
		round := begin(first, params)
		for name, test := range map[string]struct {
			p  *eratest.Peer
			ok bool
		}{
			"same key": {open(key), true}, "key on its way out": {open(other, key), true},
			"another key": {open(other), false}, "random key": {open(), false},
		} {
			answer := test.p.Call(mcp.MethodToolsCall, retried(params, round, answers))
			if got := eratest.At(answer, "result", "inputRequests", "roots") != ""; got != test.ok {
				t.Errorf("%s: the state is accepted: %t, want %t: %s", name, got, test.ok, answer)
			}
		}
		// Each round runs on another replica.
		round = begin(open(key), params)
		for range 2 {
			round = open(key).Call(mcp.MethodToolsCall, retried(params, round, answers))
		}
		if last := open(key).Call(mcp.MethodToolsCall, retried(params, round, answers)); eratest.ResultText(last) != "first, file:///home, third" {
			t.Errorf("three replicas end with %s", last)
		}
	})
}

// TestStateTooLarge checks that the size of the state is limited.
func TestStateTooLarge(t *testing.T) {
	eachVersion(t, func(t *testing.T, version mcp.Version) {
		s := newAskingServer(nil)
		server.AddTool(s, server.Tool{Name: "hoard"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			hoard, err := server.Once(r, "hoard", func() (string, error) { return strings.Repeat("x", 1<<20), nil })
			if err != nil {
				return "", err
			}
			_, err = server.Roots(r, "roots")
			return hoard[:1], err
		})
		p := eratest.Open(t, s, version, eratest.Askable)
		last, _ := converse(p, mcp.MethodToolsCall, `{"name":"hoard"}`, answers)
		if version.Modern() {
			eratest.WantError(t, last, jsonrpc.InternalError)
			return
		}
		eratest.Want(t, last, `"x"`, "result", "content", "0", "text") // the state stays in memory
	})
}

// TestMergeParams checks that the members of a client are merged with the members of the params, also with escapes in
// their names.
func TestMergeParams(t *testing.T) {
	const state, answer = `"s1"`, `{"r":{"roots":[{"uri":"file:///home"}]}}`
	for _, params := range []string{
		`{"name":"t"}`,
		`{"name":"t"} `,
		`{"name":"t","_meta":{"x":1}}`,
		`{"name":"t","\u005fmeta":{"x":1}}`,
		`{"name":"t","_met\u0061":{"x":1,"io.modelcontextprotocol\/protocolVersion":"1999-01-01","progress\u0054oken":"mine"}}`,
		`{"name":"_meta","arguments":{"_meta":{"x":2},"s":"\"_meta\":{"}}`,
		`{"name":"t","requestState":"mine","input\u0052esponses":{}}`,
	} {
		for name, host := range map[string]func(testing.TB, func(string) []string) *eratest.Host{"modern": eratest.ModernHost, "legacy": eratest.LegacyHost} {
			t.Run(fmt.Sprint(name, " ", params), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rounds := 0
					h := host(t, func(frame string) []string {
						if rounds++; rounds == 1 && name == "modern" {
							return []string{eratest.Reply(frame, eratest.RootsRound)}
						}
						return []string{eratest.Reply(frame, eratest.Finished)}
					})
					s := session(t, h, &client.Options{Roots: homeRoots})
					opts := &client.CallOptions{Progress: func(*mcp.ProgressParams) {}}
					if _, err := s.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(params), opts); err != nil {
						t.Fatal(err)
					}
					for i, call := range h.Calls() {
						sent := eratest.At(call, "params")
						if _, err := jsonscan.ReadObject([]byte(sent)); err != nil {
							t.Errorf("the server gets %s: %v", sent, err)
						}
						meta := eratest.At(sent, "_meta")
						if _, err := jsonscan.ReadObject([]byte(meta)); err != nil {
							t.Errorf("the server gets _meta %s: %v", meta, err)
						}
						eratest.Want(t, meta, "1", "progressToken")
						eratest.Want(t, meta, eratest.At(params, "_meta", "x"), "x")
						eratest.Want(t, sent, eratest.At(params, "arguments"), "arguments")
						if name == "modern" {
							eratest.Want(t, meta, `"2026-07-28"`, mcp.MetaProtocolVersion)
						}
						if i == 1 {
							eratest.Want(t, sent, state, "requestState")
							eratest.Want(t, sent, answer, "inputResponses")
						}
					}
				})
			})
		}
	}
}

// TestEscapedResultType checks that a result type may have escapes.
func TestEscapedResultType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := false
		h := eratest.ModernHost(t, func(frame string) []string {
			if asked = !asked; asked {
				return []string{eratest.Reply(frame, `{"result\u0054ype":"input\u005frequired","inputRequests":{"r":{"method":"roots/list"}}}`)}
			}
			return []string{eratest.Reply(frame, `{"resultType":"\u0063omplete","content":[{"type":"text","text":"done"}]}`)}
		})
		if got, err := tool(t, session(t, h, &client.Options{Roots: homeRoots})); got != "done" || err != nil {
			t.Errorf("the result is %q, %v", got, err)
		}
	})
}
