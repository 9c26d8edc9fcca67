package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// TestAudit: each call has one record, without arguments and results.
func TestAudit(t *testing.T) {
	var log frontendtest.Log
	rules := frontendtest.Compile(t, `{"rules":[{"effect":"allow","servers":["files"]},{"name":"no images","effect":"deny","names":["image"]}]}`)
	audit := &gateway.Audit{Logger: log.Logger()}
	r := newRig(t, gateway.Options{}, operator{Options: server.Options{
		Middleware: []mcp.Middleware{audit.Middleware}, Guards: []mcp.Guard{policy.Guard(rules, &policy.GuardOptions{OnDecision: audit.OnDecision})},
	}})
	const secret, arguments = "canary-5d1f", `{ "password":"canary-5d1f" }`
	one := r.as(frontendtest.TokenOne)
	one.post(t, call("files", "echo"), `{"arguments":`+arguments+`}`)
	one.post(t, restPath+"/tools/files__fail", arguments)
	one.post(t, restPath+"/tools/files__image", arguments)
	one.post(t, restPath+"/tools/call", `{"name":"files__made_up_`+strings.Repeat("x", 1000)+`","arguments":`+arguments+`}`)
	one.post(t, call("nobody", "made_up"), `{"arguments":`+arguments+`}`)
	one.get(t, restPath+"/tools")

	records := log.Records(t, "call")
	var seen []string
	for _, record := range records {
		if record["principal"] != "one" {
			t.Errorf("the caller is %v", record["principal"])
		}
		seen = append(seen, fmt.Sprintf("%v %v %v %v", record["method"], record["server"], record["tool"], record["outcome"]))
	}
	want := []string{
		"tools/call files echo ok", "tools/call files fail tool_error", "tools/call files image forbidden",
		"tools/call   unknown_tool",
		"tools/list   ok", // the proxy lists the tools to find the visible servers
		"tools/list   ok",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the calls are\n%s", strings.Join(seen, "\n"))
	}
	if records[4]["for"] != "tools/call" || records[5]["for"] != nil {
		t.Errorf("the lists are for %v and %v", records[4]["for"], records[5]["for"])
	}
	first := records[0]
	sum := sha256.Sum256([]byte(arguments))
	if first["exposed"] != "files__echo" || first["argumentsSize"] != float64(len(arguments)) || first["argumentsDigest"] != hex.EncodeToString(sum[:]) || first["duration"] == float64(0) {
		t.Errorf("the record is %v", first)
	}
	if reason := records[2]["reason"]; !strings.Contains(fmt.Sprint(reason), "no images") {
		t.Errorf("the reason of a denial is %v", reason)
	}
	decisions := log.Records(t, "decision")
	if len(decisions) != 3 || decisions[2]["rule"] != "no images" || decisions[2]["effect"] != "deny" || decisions[0]["effect"] != "allow" || decisions[0]["principal"] != "one" {
		t.Errorf("the decisions are %v", decisions)
	}
	if strings.Contains(log.String(), secret) {
		t.Errorf("the log has the arguments:\n%s", log.String())
	}
	if longest := slices.MaxFunc(strings.Split(log.String(), "\n"), func(a, b string) int { return len(a) - len(b) }); len(longest) > 1500 {
		t.Errorf("a record has %d bytes", len(longest))
	}
}

// TestAuditOutcomes: each error has its own outcome, and errors of upstream servers cannot
// imitate decisions.
func TestAuditOutcomes(t *testing.T) {
	upstream := func(f bridge.Failure) error { return &bridge.UpstreamError{Failure: f, Err: errTest} }
	for outcome, err := range map[string]error{
		"forbidden":            &policy.DeniedError{Kind: mcp.KindTool},
		"rejected":             &approval.Error{Code: approval.Rejected},
		"approval_timeout":     &approval.Error{Code: approval.Expired},
		"no_approver":          &approval.Error{Code: approval.NoApprover},
		"too_many_approvals":   &approval.Error{Code: approval.TooMany},
		"upstream_unavailable": upstream(bridge.Unavailable),
		"upstream_timeout":     upstream(bridge.TimedOut),
		"upstream_busy":        upstream(bridge.Busy),
		"invalid_params":       &jsonrpc.Error{Code: jsonrpc.InvalidParams},
		"server_error":         &jsonrpc.Error{Code: jsonrpc.InternalError, Data: json.RawMessage(`{"type":"REJECTED"}`)},
		"input_required":       &mcp.InputRequired{Requests: map[string]mcp.InputRequest{"name": {}}},
		"timeout":              fmt.Errorf("late: %w", context.DeadlineExceeded),
		"canceled":             context.Canceled,
		"internal":             errTest,
	} {
		if got := outcomeOf(t, func() (mcp.Result, error) { return nil, err }); got != outcome {
			t.Errorf("%v is %q, want %q", err, got, outcome)
		}
	}
	for outcome, result := range map[string]mcp.Result{
		"ok":         &mcp.CallToolResult{},
		"tool_error": &mcp.CallToolResult{IsError: true},
	} {
		if got := outcomeOf(t, func() (mcp.Result, error) { return result, nil }); got != outcome {
			t.Errorf("%v is %q, want %q", result, got, outcome)
		}
	}
	for outcome, err := range map[string]error{
		"tool_error":       &server.FunctionError{Err: errors.New("the oven is cold")},
		"invalid_params":   &server.FunctionError{Arguments: true, Err: errors.New("at /bread: missing")},
		"upstream_timeout": &server.FunctionError{Err: upstream(bridge.TimedOut)},
	} {
		if got := outcomeOf(t, func() (mcp.Result, error) { return nil, err }); got != outcome {
			t.Errorf("%v of a function is %q, want %q", err, got, outcome)
		}
	}
	if got := outcomeOf(t, func() (mcp.Result, error) { panic(errTest) }); got != "panic" {
		t.Errorf("a panic is %q", got)
	}
}

func outcomeOf(t *testing.T, answer func() (mcp.Result, error)) string {
	t.Helper()
	var log frontendtest.Log
	audit := &gateway.Audit{Logger: log.Logger()}
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(`{"name":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, &mcp.Caller{}, nil)
	call.Resolve(&mcp.Target{Kind: mcp.KindTool, Name: "x"}, "", nil)
	var passed error
	func() {
		defer func() {
			if p := recover(); p != nil && p != errTest {
				panic(p)
			}
		}()
		_, passed = audit.Middleware(func(context.Context, *mcp.Call) (mcp.Result, error) { return answer() })(t.Context(), &call)
	}()
	records := log.Records(t, "call")
	if len(records) != 1 {
		t.Fatalf("there are %d records", len(records))
	}
	if passed != nil && errors.Is(passed, errTest) && strings.Contains(log.String(), errTest.Error()) {
		t.Error("the log has the text of an unknown error")
	}
	return records[0]["outcome"].(string)
}

// TestAuditArguments: with Arguments, the log has the arguments.
func TestAuditArguments(t *testing.T) {
	var log frontendtest.Log
	audit := &gateway.Audit{Logger: log.Logger(), Arguments: true}
	r := newRig(t, gateway.Options{}, operator{Options: server.Options{Middleware: []mcp.Middleware{audit.Middleware}}})
	r.post(t, restPath+"/tools/files__echo", `{"a": 1}`)
	if records := log.Records(t, "call"); len(records) != 1 || records[0]["arguments"] != `{"a": 1}` {
		t.Errorf("the records are %v", records)
	}
}

// TestBudgets limits the allocations of the audit and of the proxy.
func TestBudgets(t *testing.T) {
	racetest.Skip(t)
	s := newStub(`{"type":"object"}`, "x")
	ctx := context.Background()
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(`{"name":"s__x","arguments":{"a":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, &mcp.Caller{}, nil)
	call.Resolve(&s.catalog.Lookup(mcp.KindTool, "s__x").Target, "", nil)
	audit := &gateway.Audit{Logger: frontendtest.Quiet()}
	audited := audit.Middleware(func(context.Context, *mcp.Call) (mcp.Result, error) { return s.result, nil })
	proxy := s.gateway(t, gateway.Options{}).Proxy()
	for name, test := range map[string]struct {
		most float64
		run  func()
	}{
		"audit": {12, func() { audited(ctx, &call) }},
		"proxy": {80, func() {
			s.called = s.called[:0]
			serve(proxy)
		}},
	} {
		if got := testing.AllocsPerRun(200, test.run); got > test.most {
			t.Errorf("%s takes %.0f allocations, and may take %.0f", name, got, test.most)
		} else {
			t.Logf("%s takes %.0f allocations", name, got)
		}
	}
}

func serve(handler http.Handler) {
	r := httptest.NewRequest(http.MethodPost, "/s/tools/x", strings.NewReader(`{"arguments":{"a":1}}`))
	r.Host = "localhost"
	r.Header["Content-Type"] = []string{"application/json"}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}))
	handler.ServeHTTP(httptest.NewRecorder(), r)
}

func BenchmarkProxy(b *testing.B) {
	s := newStub(`{"type":"object"}`, "x")
	proxy := s.gateway(b, gateway.Options{}).Proxy()
	b.ReportAllocs()
	for b.Loop() {
		s.called = s.called[:0]
		serve(proxy)
	}
}

// TestPollsAreLoggedAtDebugLevel: a client polls a task for minutes. A poll that fails, and all other calls, are at level Info.
func TestPollsAreLoggedAtDebugLevel(t *testing.T) {
	for _, test := range []struct {
		method string
		err    error
		want   string
	}{
		{mcp.MethodTasksGet, nil, "DEBUG"},
		{mcp.MethodTasksGet, errors.New("no"), "INFO"},
		{mcp.MethodTasksCancel, nil, "INFO"},
		{mcp.MethodToolsCall, nil, "INFO"},
	} {
		var log frontendtest.Log
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), test.method, json.RawMessage(`{"taskId":"x","name":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		call := mcp.NewCall(request, &mcp.Caller{}, nil)
		audit := &gateway.Audit{Logger: log.Logger()}
		_, _ = audit.Middleware(func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw("{}"), test.err })(t.Context(), &call)
		if records := log.Records(t, "call"); len(records) != 1 || records[0]["level"] != test.want {
			t.Errorf("%s with the error %v: %v, want %s", test.method, test.err, records, test.want)
		}
	}
}
