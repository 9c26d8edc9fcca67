package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// A ledger takes records, for a test to read.
type ledger struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *ledger) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *ledger) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// records are those with a message, in their order.
func (l *ledger) records(t *testing.T, message string) (records []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var record map[string]any
		unmarshal(t, line, &record)
		if record["msg"] == message {
			records = append(records, record)
		}
	}
	return records
}

// TestAudit: there is one record for each call, and it does not have what was said.
func TestAudit(t *testing.T) {
	var log ledger
	var metrics gateway.Metrics
	rules := compiled(t, `{"rules":[{"effect":"allow","servers":["files"]},{"name":"no images","effect":"deny","names":["image"]}]}`)
	audit := &gateway.Audit{Logger: log.logger(), Counters: &metrics}
	r := newRig(t, gateway.Options{}, operator{Options: server.Options{
		Middleware: []mcp.Middleware{audit.Intercept}, Guards: []mcp.Guard{policy.Guard(rules, &policy.GuardOptions{Decided: audit.Decided})},
	}})
	const secret, arguments = "canary-5d1f", `{ "password":"canary-5d1f" }`
	one := r.as("a-token-of-sandbox-one")
	one.post(t, call("files", "echo"), `{"arguments":`+arguments+`}`)
	one.post(t, restPath+"/tools/files__fail", arguments)
	one.post(t, restPath+"/tools/files__image", arguments)
	one.post(t, restPath+"/tools/call", `{"name":"files__made_up_`+strings.Repeat("x", 1000)+`","arguments":`+arguments+`}`)
	one.post(t, call("nobody", "made_up"), `{"arguments":`+arguments+`}`)
	one.get(t, restPath+"/tools")

	records := log.records(t, "call")
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
		"tools/list   ok", // of the proxy, which says which servers there are
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
	decisions := log.records(t, "decision")
	if len(decisions) != 3 || decisions[2]["rule"] != "no images" || decisions[2]["effect"] != "deny" || decisions[0]["effect"] != "allow" || decisions[0]["principal"] != "one" {
		t.Errorf("the decisions are %v", decisions)
	}
	if strings.Contains(log.text.String(), secret) {
		t.Errorf("the log has the arguments:\n%s", log.text.String())
	}
	if longest := slices.MaxFunc(strings.Split(log.text.String(), "\n"), func(a, b string) int { return len(a) - len(b) }); len(longest) > 1500 {
		t.Errorf("a record has %d bytes", len(longest))
	}
	shown := shownBy(&metrics)
	for _, line := range []string{
		`dovetail_calls_total{method="tools/call",server="files",tool="echo",outcome="ok"} 1`,
		`dovetail_calls_total{method="tools/call",server="files",tool="fail",outcome="tool_error"} 1`,
		`dovetail_calls_total{method="tools/call",server="(unknown)",tool="(unknown)",outcome="unknown_tool"} 1`,
		`dovetail_calls_total{method="tools/list",server="",tool="",outcome="ok"} 2`,
		`dovetail_decisions_total{kind="tool",effect="deny"} 1`,
	} {
		if !strings.Contains(shown, line+"\n") {
			t.Errorf("there is no line %s in\n%s", line, shown)
		}
	}
	if strings.Contains(shown, "made_up") {
		t.Errorf("a caller has made a series:\n%s", shown)
	}
}

// TestAuditOutcomes: each error has an outcome of its own, and nothing that a server says has
// that of a decision.
func TestAuditOutcomes(t *testing.T) {
	upstream := func(f bridge.Failure) error { return &bridge.UpstreamError{Failure: f, Err: errTest} }
	for outcome, err := range map[string]error{
		"forbidden":            &policy.DeniedError{Kind: mcp.KindTool},
		"rejected":             &approval.Error{Kind: approval.Rejected},
		"approval_timeout":     &approval.Error{Kind: approval.Expired},
		"no_approver":          &approval.Error{Kind: approval.NoApprover},
		"too_many_approvals":   &approval.Error{Kind: approval.TooMany},
		"upstream_unavailable": upstream(bridge.Unavailable),
		"upstream_timeout":     upstream(bridge.TimedOut),
		"upstream_busy":        upstream(bridge.Busy),
		"invalid_params":       &jsonrpc.Error{Code: jsonrpc.InvalidParams},
		"server_error":         &jsonrpc.Error{Code: jsonrpc.InternalError, Data: json.RawMessage(`{"type":"REJECTED"}`)},
		"input_required":       &mcp.InputRequired{},
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
	if got := outcomeOf(t, func() (mcp.Result, error) { panic(errTest) }); got != "panic" {
		t.Errorf("a panic is %q", got)
	}
}

func outcomeOf(t *testing.T, answer func() (mcp.Result, error)) string {
	t.Helper()
	var log ledger
	audit := &gateway.Audit{Logger: log.logger()}
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
		_, passed = audit.Intercept(func(context.Context, *mcp.Call) (mcp.Result, error) { return answer() })(t.Context(), &call)
	}()
	records := log.records(t, "call")
	if len(records) != 1 {
		t.Fatalf("there are %d records", len(records))
	}
	if passed != nil && errors.Is(passed, errTest) && strings.Contains(log.text.String(), errTest.Error()) {
		t.Error("the log has the words of an error that nobody has looked at")
	}
	return records[0]["outcome"].(string)
}

// TestAuditArguments: they are logged if somebody wants that.
func TestAuditArguments(t *testing.T) {
	var log ledger
	audit := &gateway.Audit{Logger: log.logger(), Arguments: true}
	r := newRig(t, gateway.Options{}, operator{Options: server.Options{Middleware: []mcp.Middleware{audit.Intercept}}})
	r.post(t, restPath+"/tools/files__echo", `{"a": 1}`)
	if records := log.records(t, "call"); len(records) != 1 || records[0]["arguments"] != `{"a": 1}` {
		t.Errorf("the records are %v", records)
	}
}

// TestCallersMakeNoSeries: names of tools that are in no list are no labels.
func TestCallersMakeNoSeries(t *testing.T) {
	var metrics gateway.Metrics
	audit := &gateway.Audit{Logger: quiet(), Counters: &metrics}
	skills := func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, nil }
	r := newRig(t, gateway.Options{}, operator{
		Options: server.Options{Middleware: []mcp.Middleware{audit.Intercept}}, pseudo: map[string]gateway.ToolFunc{"skills": skills},
	})
	r.post(t, restPath+"/tools/call", `{"name":"skills__`+strings.Repeat("made_up", 100_000)+`"}`)
	r.post(t, restPath+"/tools/call", `{"name":"made_up"}`)
	r.post(t, restPath+"/tools/files__read", `{}`)
	shown := shownBy(&metrics)
	if len(shown) > 2000 || strings.Contains(shown, "made_up") {
		t.Errorf("callers have made series:\n%.3000s", shown)
	}
	for _, line := range []string{
		`{method="tools/call",server="skills",tool="(unknown)",outcome="ok"} 1`,
		`{method="tools/call",server="(unknown)",tool="(unknown)",outcome="unknown_tool"} 1`,
		`{method="tools/call",server="files",tool="read",outcome="ok"} 1`,
	} {
		if !strings.Contains(shown, line+"\n") {
			t.Errorf("there is no line %s in\n%s", line, shown)
		}
	}
}
