package toolserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// FuzzRunRequest parses request bodies. encoding/json finds the same values in a valid one, the
// formatted params contain no values of variables and headers, and the arguments are a part of
// the body.
func FuzzRunRequest(f *testing.F) {
	for _, seed := range []string{
		`{"server_name":"a","server_params":{"command":"npx","args":["-y","x"],"env":{"A":"canary"},"cwd":"/"},"tool_name":"t","tool_args":{"a":[1,{}]}}`,
		`{"server_name":"a","server_params":{"url":"https://u:p@h/mcp?canary#x","headers":{"X":"canary"},"type":"sse"},"tool_name":"t","tool_args":{}}`,
		`{"server_name":"a","tool_name":"\ud83d\ude00","tool_args":{}}`,
		`{"server_name":"a","server_params":{},"tool_name":"t","tool_args":{"a":1,"a":2}}`,
		`{"tool_args":{}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := parseRun(body)
		if err != nil {
			return
		}
		var same struct {
			Server string          `json:"server_name"`
			Tool   string          `json:"tool_name"`
			Args   json.RawMessage `json:"tool_args"`
		}
		if err := json.Unmarshal(body, &same); err != nil {
			t.Fatalf("it is no JSON: %v", err)
		}
		if same.Server != q.server || same.Tool != q.tool || string(same.Args) != string(q.arguments) {
			t.Errorf("%+v is not %+v", q, same)
		}
		if q.server == "" || len(q.server) > maxServerName || jsonscan.KindOf(q.arguments) != jsonscan.Object {
			t.Errorf("it should not be taken: %+v", q)
		}
		if q.params == nil {
			return
		}
		resolved, err := q.params.resolve(q.server)
		if err != nil {
			t.Fatalf("the params are none: %v", err)
		}
		printed := fmt.Sprintf("%v %+v", q.params, resolved) + resolved.Launch()
		for _, values := range []map[string]string{q.params.Env, q.params.Headers} {
			for _, value := range values {
				if strings.Contains(value, "canary") && strings.Count(string(body), "canary") == 1 && strings.Contains(printed, value) {
					t.Errorf("a value is revealed: %s", printed)
				}
			}
		}
	})
}

// FuzzRunResponse parses responses of tool servers.
func FuzzRunResponse(f *testing.F) {
	for _, seed := range []string{`{"result":{"a":1}}`, `{"result":null}`, `{"error":"x","type":"rejected"}`, `{"error":"Approval request for s.t expired"}`, `{"approved":true}`, `{}`, `[`, `{"result":}`} {
		f.Add([]byte(seed))
	}
	runner, err := NewRunner("http://localhost", "s", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, failed := runner.read("/run", "t", body)
		if failed == nil && !json.Valid(answer.Result) {
			t.Errorf("the result is no JSON: %s", answer.Result)
		}
		if failed != nil && failed.Message == "" && failed.Err == nil && !strings.Contains(string(body), `"error"`) {
			t.Error("the error says nothing")
		}
	})
}
