package era_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestKeysOfParams: members that a client adds are merged with those that the parameters
// have, however these spell them, and strings that look like keys are none.
func TestKeysOfParams(t *testing.T) {
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

// TestEscapedResultType: a result's type is compared as a string.
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
