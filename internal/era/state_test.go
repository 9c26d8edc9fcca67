package era_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The state of a call travels with the client, between the rounds. MCP
// 2026-07-28, basic/patterns/mrtr.

// begin makes the first request of a call that asks, and returns the round.
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
		s := newAsker(nil)
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
					t.Errorf("%s: the state is taken: %s", test.name, answer)
				}
				continue
			}
			if eratest.At(answer, "result", "inputRequests", "roots") == "" {
				t.Errorf("%s: the state is not taken: %s", test.name, answer)
			}
		}
	})
}

// TestStateOfTwin: a tool and a prompt may have the same name and arguments.
func TestStateOfTwin(t *testing.T) {
	modern(t, func(t *testing.T) {
		p := eratest.Open(t, newAsker(nil), mcp.LatestVersion, eratest.Askable)
		const params = `{"name":"twin","arguments":{}}`
		round := begin(p, params)
		eratest.WantError(t, p.Call(mcp.MethodPromptsGet, retried(params, round, answers)), jsonrpc.InvalidParams)
		eratest.Want(t, p.Call(mcp.MethodToolsCall, retried(params, round, answers)), `"twin"`, "result", "content", "0", "text")
	})
}

func TestTamperedState(t *testing.T) {
	modern(t, func(t *testing.T) {
		p := eratest.Open(t, newAsker(nil), mcp.LatestVersion, eratest.Askable)
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
		for _, raw := range []string{`""`, `null`, `7`, `{}`, `"x"`, `"` + state + `x"`, `"` + state[1:] + `"`, `"` + strings.Repeat("A", 1<<20) + `"`} {
			eratest.WantError(t, with(raw), jsonrpc.InvalidParams)
		}
		eratest.Want(t, with(`"`+state+`"`), `"input_required"`, "result", "resultType") // it is sound after all
	})
}

func TestExpiredState(t *testing.T) {
	modern(t, func(t *testing.T) {
		p := eratest.Open(t, newAsker(nil), mcp.LatestVersion, eratest.Askable)
		const params = `{"name":"three"}`
		round := begin(p, params)
		eratest.Pass(era.StateLifetime - time.Second)
		eratest.Want(t, p.Call(mcp.MethodToolsCall, retried(params, round, answers)), `"input_required"`, "result", "resultType")
		eratest.Pass(time.Second)
		late := p.Call(mcp.MethodToolsCall, retried(params, round, answers))
		eratest.WantError(t, late, jsonrpc.InvalidParams)
		if !strings.Contains(eratest.Text(late, "error", "message"), "expired") {
			t.Errorf("nothing says that the state has expired: %s", late)
		}
	})
}

// TestReplicas: whoever has the keys can continue a call, nobody else.
func TestReplicas(t *testing.T) {
	modern(t, func(t *testing.T) {
		key, other := []byte(strings.Repeat("k", 32)), []byte(strings.Repeat("o", 32))
		const params = `{"name":"three"}`
		open := func(keys ...[]byte) *eratest.Peer {
			return eratest.Open(t, newAsker(&server.Options{StateKeys: keys}), mcp.LatestVersion, eratest.Askable)
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
				t.Errorf("%s: the state is taken: %t, want %t: %s", name, got, test.ok, answer)
			}
		}
		// Each round on another replica.
		round = begin(open(key), params)
		for range 2 {
			round = open(key).Call(mcp.MethodToolsCall, retried(params, round, answers))
		}
		if last := open(key).Call(mcp.MethodToolsCall, retried(params, round, answers)); eratest.Said(last) != "first, file:///home, third" {
			t.Errorf("three replicas end with %s", last)
		}
	})
}

// TestKeptTooMuch: what travels is bounded.
func TestKeptTooMuch(t *testing.T) {
	eachVersion(t, func(t *testing.T, version mcp.Version) {
		s := newAsker(nil)
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
		eratest.Want(t, last, `"x"`, "result", "content", "0", "text") // nothing travels
	})
}
