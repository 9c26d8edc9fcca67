package era_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The state of a call travels with the client, between the rounds. MCP
// 2026-07-28, basic/patterns/mrtr.

// begin makes the first request of a call that asks, and returns the round.
func begin(p *peer, params string) (round string) {
	p.t.Helper()
	round = p.call(mcp.MethodToolsCall, params)
	want(p.t, round, `"input_required"`, "result", "resultType")
	return round
}

func modern(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func TestStateOfAnotherCall(t *testing.T) {
	modern(t, func(t *testing.T) {
		s := newAsker(nil)
		alice := connectAs(t, s, "alice")
		alice.version, alice.capabilities = mcp.LatestVersion, askable
		bob := connectAs(t, s, "bob")
		bob.version, bob.capabilities = mcp.LatestVersion, askable
		again := connectAs(t, s, "alice")
		again.version, again.capabilities = mcp.LatestVersion, askable

		const params = `{"name":"three","arguments":{"n":1}}`
		round := begin(alice, params)
		for _, test := range []struct {
			name   string
			by     *peer
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
			answer := test.by.call(test.method, retried(test.params, round, answers))
			if !test.ok {
				if at(answer, "error", "code") != "-32602" {
					t.Errorf("%s: the state is taken: %s", test.name, answer)
				}
				continue
			}
			if at(answer, "result", "inputRequests", "roots") == "" {
				t.Errorf("%s: the state is not taken: %s", test.name, answer)
			}
		}
	})
}

// TestStateOfTwin: a tool and a prompt may have the same name and arguments.
func TestStateOfTwin(t *testing.T) {
	modern(t, func(t *testing.T) {
		p := open(t, newAsker(nil), mcp.LatestVersion, askable)
		const params = `{"name":"twin","arguments":{}}`
		round := begin(p, params)
		wantError(t, p.call(mcp.MethodPromptsGet, retried(params, round, answers)), jsonrpc.InvalidParams)
		want(t, p.call(mcp.MethodToolsCall, retried(params, round, answers)), `"twin"`, "result", "content", "0", "text")
	})
}

func TestTamperedState(t *testing.T) {
	modern(t, func(t *testing.T) {
		p := open(t, newAsker(nil), mcp.LatestVersion, askable)
		const params = `{"name":"three"}`
		state := text(begin(p, params), "result", "requestState")
		with := func(raw string) string {
			changed, err := jsonscan.Splice(nil, []byte(params), jsonscan.Edit{Name: "requestState", Value: []byte(raw)})
			if err != nil {
				t.Fatal(err)
			}
			return p.call(mcp.MethodToolsCall, string(changed))
		}
		for i := range state {
			other := byte('A')
			if state[i] == other {
				other = 'B'
			}
			wantError(t, with(`"`+state[:i]+string(other)+state[i+1:]+`"`), jsonrpc.InvalidParams)
		}
		for _, raw := range []string{`""`, `null`, `7`, `{}`, `"x"`, `"` + state + `x"`, `"` + state[1:] + `"`, `"` + strings.Repeat("A", 1<<20) + `"`} {
			wantError(t, with(raw), jsonrpc.InvalidParams)
		}
		want(t, with(`"`+state+`"`), `"input_required"`, "result", "resultType") // it is sound after all
	})
}

func TestExpiredState(t *testing.T) {
	modern(t, func(t *testing.T) {
		p := open(t, newAsker(nil), mcp.LatestVersion, askable)
		const params = `{"name":"three"}`
		round := begin(p, params)
		pass(era.StateLifetime - time.Second)
		want(t, p.call(mcp.MethodToolsCall, retried(params, round, answers)), `"input_required"`, "result", "resultType")
		pass(time.Second)
		late := p.call(mcp.MethodToolsCall, retried(params, round, answers))
		wantError(t, late, jsonrpc.InvalidParams)
		if !strings.Contains(text(late, "error", "message"), "expired") {
			t.Errorf("nothing says that the state has expired: %s", late)
		}
	})
}

// TestReplicas: whoever has the keys can continue a call, nobody else.
func TestReplicas(t *testing.T) {
	modern(t, func(t *testing.T) {
		key, other := []byte(strings.Repeat("k", 32)), []byte(strings.Repeat("o", 32))
		const params = `{"name":"three"}`
		open := func(keys ...[]byte) *peer {
			return open(t, newAsker(&server.Options{StateKeys: keys}), mcp.LatestVersion, askable)
		}
		first := open(key)
		round := begin(first, params)
		for name, test := range map[string]struct {
			p  *peer
			ok bool
		}{
			"same key": {open(key), true}, "key on its way out": {open(other, key), true},
			"another key": {open(other), false}, "random key": {open(), false},
		} {
			answer := test.p.call(mcp.MethodToolsCall, retried(params, round, answers))
			if got := at(answer, "result", "inputRequests", "roots") != ""; got != test.ok {
				t.Errorf("%s: the state is taken: %t, want %t: %s", name, got, test.ok, answer)
			}
		}
		// Each round on another replica.
		round = begin(open(key), params)
		for range 2 {
			round = open(key).call(mcp.MethodToolsCall, retried(params, round, answers))
		}
		if last := open(key).call(mcp.MethodToolsCall, retried(params, round, answers)); said(last) != "first, file:///home, third" {
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
		p := open(t, s, version, askable)
		last, _ := p.converse(mcp.MethodToolsCall, `{"name":"hoard"}`, answers)
		if version.Modern() {
			wantError(t, last, jsonrpc.InternalError)
			return
		}
		want(t, last, `"x"`, "result", "content", "0", "text") // nothing travels
	})
}
