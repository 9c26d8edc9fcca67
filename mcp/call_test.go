package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A diary is an exchange that remembers what was kept.
type diary map[string]json.RawMessage

func (diary) Notify(context.Context, string, jsonrpc.Appender) error { return nil }
func (diary) Input(string, mcp.InputRequest) (json.RawMessage, error) {
	return json.RawMessage(`{}`), nil
}
func (d diary) Load(key string) (json.RawMessage, bool) { value, ok := d[key]; return value, ok }
func (d diary) Store(key string, value json.RawMessage) { d[key] = value }
func (diary) Detach(time.Duration)                      {}
func (diary) TaskID() string                            { return "" }
func (diary) ID() string                                { return "the only one" }
func (diary) OnDone(func())                             {}

func newCall(t testing.TB, params string, exchange mcp.Responder) mcp.Call {
	t.Helper()
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(7), mcp.MethodToolsCall, json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	return mcp.NewCall(req, &mcp.Caller{Principal: "somebody"}, exchange)
}

// TestWithParams checks that the copy differs in the params only, and that the original is
// unchanged.
func TestWithParams(t *testing.T) {
	kept := diary{}
	call := newCall(t, `{"name":"a","arguments":{"x":1}}`, kept)
	other, err := call.WithParams(json.RawMessage(`{"name":"b","_meta":{"m":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	if other.Method() != call.Method() || other.Caller != call.Caller {
		t.Errorf("the other call is %+v", other)
	}
	if other.Store("k", json.RawMessage(`1`)); string(kept["k"]) != "1" {
		t.Error("the other call has lost its exchange")
	}
	for _, test := range []struct {
		call            *mcp.Call
		params, name, m string
	}{
		{&call, `{"name":"a","arguments":{"x":1}}`, `"a"`, ""},
		{other, `{"name":"b","_meta":{"m":true}}`, `"b"`, "true"},
	} {
		if string(test.call.Params()) != test.params || string(test.call.Member("name")) != test.name || string(test.call.Member("_meta", "m")) != test.m {
			t.Errorf("the params are %s, name %s, _meta.m %s", test.call.Params(), test.call.Member("name"), test.call.Member("_meta", "m"))
		}
	}
	none, err := call.WithParams(nil)
	if err != nil || none.Params() != nil || none.Member("name") != nil {
		t.Errorf("without params the call is %+v, %v", none, err)
	}
}

// TestWithParamsRefuses checks that invalid params are rejected.
func TestWithParamsRefuses(t *testing.T) {
	call := newCall(t, `{}`, nil)
	for _, params := range []string{``, `7`, `{"a":1,"a":2}`, `{"a":1} {}`, `{"a":{"b":1,"\u0062":2}}`} {
		var e *jsonrpc.Error
		if _, err := call.WithParams(json.RawMessage(params)); !errors.As(err, &e) || e.Code != jsonrpc.InvalidParams {
			t.Errorf("%q: the error is %v", params, err)
		}
	}
}

// TestWithParamsAllocates twice, for the call and for its request.
func TestWithParamsAllocates(t *testing.T) {
	call := newCall(t, `{}`, nil)
	params := json.RawMessage(`{"name":"a","arguments":{"x":1}}`)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := call.WithParams(params); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 2 {
		t.Errorf("%v allocations, want at most 2", allocs)
	}
}

// TestFreezeArguments checks that a copy of the call must keep the arguments, byte for byte.
// TestWithMeta checks that the copy differs in _meta only, byte for byte.
func TestWithMeta(t *testing.T) {
	for params, want := range map[string]string{
		``:                                    `{"_meta":{"k":1}}`,
		`{}`:                                  `{"_meta":{"k":1}}`,
		`{"arguments":{"a" : 1.0}}`:           `{"arguments":{"a" : 1.0},"_meta":{"k":1}}`,
		`{"_meta":{"old":2},"name":"a"}`:      `{"_meta":{"k":1},"name":"a"}`,
		`{"name":"a","\u005fmeta":{"old":2}}`: `{"name":"a","\u005fmeta":{"k":1}}`,
	} {
		call := mcp.NewCall(&jsonrpc.Request{ID: jsonrpc.IntID(7), Method: mcp.MethodToolsList}, &mcp.Caller{}, diary{})
		if params != "" {
			call = newCall(t, params, diary{})
		}
		call.FreezeArguments(errors.New("frozen")) // _meta is not frozen
		changed, err := call.WithMeta(mcp.Meta(`{"k":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if string(changed.Params()) != want || string(changed.Member("_meta", "k")) != "1" {
			t.Errorf("%s became %s, want %s", params, changed.Params(), want)
		}
		if string(call.Params()) != params || changed.RequestID() != jsonrpc.IntID(7) || changed.ID() != call.ID() {
			t.Errorf("%s: the call is now %s, and its copy has the id %v", params, call.Params(), changed.RequestID())
		}
		without, err := changed.WithMeta(nil)
		if err != nil || without.Member("_meta") != nil {
			t.Errorf("without _meta: %s, %v", without.Params(), err)
		}
	}
	call := newCall(t, `[1]`, nil)
	if _, err := call.WithMeta(mcp.Meta(`{}`)); err == nil {
		t.Error("an array got a _meta")
	}
	call = newCall(t, `{}`, nil)
	if _, err := call.WithMeta(mcp.Meta(`{"a":1,"a":2}`)); err == nil {
		t.Error("a _meta with two members of one name was accepted")
	}
}

func TestFreezeArguments(t *testing.T) {
	fixed := errors.New("fixed")
	call := newCall(t, `{"name":"a","arguments":{"x":1}}`, nil)
	early, err := call.WithParams(call.Params())
	if err != nil {
		t.Fatal(err)
	}
	early.FreezeArguments(fixed)
	entered, err := call.Enter(&mcp.Target{Name: "b"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := call.Enter(nil, json.RawMessage(`{"name":"b","arguments":{"x":2}}`), nil)
	if err != nil || string(other.Member("arguments")) != `{"x":2}` {
		t.Fatalf("a call that this one stands for: %v", err)
	}
	for params, want := range map[string]error{
		`{"name":"a","arguments":{"x":1}}`:                     nil,
		`{"arguments":{"x":1},"name":"b","_meta":{"m":1}}`:     nil,
		`{"name":"a","arguments":{"x":2}}`:                     fixed,
		`{"name":"a","arguments":{"x": 1}}`:                    fixed,
		`{"name":"a"}`:                                         fixed,
		`{"name":"a","arguments":{"x":1},"arguments":{"x":1}}`: &jsonrpc.Error{Code: jsonrpc.InvalidParams},
	} {
		for what, call := range map[string]*mcp.Call{"the call": &call, "a copy": early, "entered": entered} {
			_, err := call.WithParams(json.RawMessage(params))
			if (err == nil) != (want == nil) || want == fixed && err != fixed {
				t.Errorf("%s with %s: %v, want %v", what, params, err, want)
			}
		}
	}
	if _, err := other.WithParams(json.RawMessage(`{"name":"a","arguments":{"x":1}}`)); err != fixed {
		t.Errorf("the call that this one stands for: %v", err)
	}
}

// TestNested checks that a call that another one makes has values of its own, except those that must hold for it too.
func TestNested(t *testing.T) {
	type key struct{}
	var asked []string
	recheck := func(_ context.Context, t *mcp.Target) error {
		asked = append(asked, t.Name)
		return nil
	}
	fixed := errors.New("fixed")
	outer := newCall(t, `{"name":"outer"}`, diary{})
	outer.Resolve(&mcp.Target{Name: "outer"}, "", recheck)
	outer.Set(key{}, "of the outer call")
	outer.SetScript("call 1")
	outer.FreezeArguments(fixed)
	var calls []*mcp.Call
	for i := range 2 {
		nested, err := outer.Nested(json.RawMessage(`{"name":"inner","arguments":{"x":1}}`), &outer)
		if err != nil {
			t.Fatal(err)
		}
		nested.Resolve(&mcp.Target{Name: "inner"}, "", recheck)
		if nested.Get(key{}) != nil || nested.Script() != "call 1" || nested.ID() != outer.ID() || nested.Caller != outer.Caller {
			t.Errorf("the nested call has the value %v and the script %q", nested.Get(key{}), nested.Script())
		}
		if _, err := nested.WithParams(json.RawMessage(`{"name":"inner","arguments":{"x":2}}`)); err != fixed {
			t.Errorf("other arguments: %v", err)
		}
		nested.Set(key{}, i)
		calls = append(calls, nested)
	}
	if outer.Get(key{}) != "of the outer call" || calls[0].Get(key{}) != 0 || calls[1].Get(key{}) != 1 {
		t.Errorf("the values are %v, %v and %v", outer.Get(key{}), calls[0].Get(key{}), calls[1].Get(key{}))
	}
	if err := calls[0].Recheck(t.Context()); err != nil || !slices.Equal(asked, []string{"inner", "outer"}) {
		t.Errorf("asked about %q: %v", asked, err)
	}
	if _, err := outer.Nested(json.RawMessage(`7`), &outer); err == nil {
		t.Error("params that are a number were accepted")
	}
}

// TestRecheckAsksOnce checks that each target is checked once, however often the call was copied.
func TestRecheckAsksOnce(t *testing.T) {
	var asked []string
	recheck := func(_ context.Context, t *mcp.Target) error {
		asked = append(asked, t.Name)
		return nil
	}
	call := newCall(t, `{"name":"a"}`, nil)
	call.Resolve(&mcp.Target{Name: "outer"}, "", recheck)
	copied, err := call.WithParams(json.RawMessage(`{"name":"b"}`))
	if err != nil {
		t.Fatal(err)
	}
	entered, err := copied.Enter(&mcp.Target{Name: "inner"}, nil, recheck)
	if err != nil {
		t.Fatal(err)
	}
	again, err := entered.WithParams(json.RawMessage(`{"name":"c"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Recheck(t.Context()); err != nil || !slices.Equal(asked, []string{"inner", "outer"}) {
		t.Errorf("asked about %q: %v", asked, err)
	}
}

func TestAsInputRequired(t *testing.T) {
	ask := func(key string) error {
		return &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: {Method: mcp.MethodElicit}}}
	}
	task := &mcp.InputRequired{Task: &mcp.TaskRequest{}}
	failure := errors.New("failure")
	for _, test := range []struct {
		name string
		err  error
		want []string
		task bool
	}{
		{"none", nil, nil, false},
		{"failure", failure, nil, false},
		{"question", ask("a"), []string{"a"}, false},
		{"wrapped", fmt.Errorf("asking: %w", ask("a")), []string{"a"}, false},
		{"joined", errors.Join(ask("a"), nil, ask("b")), []string{"a", "b"}, false},
		{"joined and wrapped", fmt.Errorf("asking: %w", errors.Join(ask("a"), fmt.Errorf("more: %w", ask("b")))), []string{"a", "b"}, false},
		{"with a failure", errors.Join(ask("a"), failure), nil, false},
		{"with a wrapped failure", errors.Join(fmt.Errorf("%w", failure), ask("a")), nil, false},
		{"a task", task, nil, true},
		{"a wrapped task", fmt.Errorf("waiting: %w", task), nil, true},
		{"questions before a task", errors.Join(task, ask("a")), []string{"a"}, false},
		{"neither", &mcp.InputRequired{}, nil, false},
		{"neither and wrapped", fmt.Errorf("asking: %w", &mcp.InputRequired{}), nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			question, ok := mcp.AsInputRequired(test.err)
			var keys []string
			if ok {
				keys = slices.Sorted(maps.Keys(question.Requests))
			}
			if asks := test.want != nil || test.task; ok != asks || ok && question.WantsTask() != test.task {
				t.Errorf("the error asks: %v, and is %+v", ok, question)
			}
			if diff := cmp.Diff(test.want, keys); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A fork has the values of its call. What is set later is known only to one of the two, and to its copies, until the fork
// is joined.
func TestFork(t *testing.T) {
	root := newCall(t, `{"name":"a"}`, nil)
	call, err := root.WithParams(json.RawMessage(`{"name":"b"}`))
	if err != nil {
		t.Fatal(err)
	}
	call.Set("before", 1)
	var rechecked []string
	root.Resolve(&mcp.Target{Name: "a"}, "", func(context.Context, *mcp.Target) error {
		rechecked = append(rechecked, "root")
		return nil
	})
	fork := call.Fork()
	entered, err := fork.Enter(&mcp.Target{Name: "inner"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	entered.Set("inside", 2)
	call.Set("outside", 3)
	for name, of := range map[string]*mcp.Call{"fork": fork, "copy of the fork": entered} {
		if of.Get("before") != 1 || of.Get("inside") != 2 || of.Get("outside") != nil {
			t.Errorf("the %s has %v, %v and %v", name, of.Get("before"), of.Get("inside"), of.Get("outside"))
		}
	}
	if root.Get("before") != 1 || root.Get("inside") != nil || root.Get("outside") != 3 {
		t.Errorf("the call has %v, %v and %v", root.Get("before"), root.Get("inside"), root.Get("outside"))
	}
	if err := entered.Recheck(t.Context()); err != nil || len(rechecked) != 1 {
		t.Errorf("the fork has rechecked %q, %v", rechecked, err)
	}
	call.Join(fork)
	if root.Get("inside") != 2 || root.Get("outside") != nil {
		t.Errorf("the joined call has %v and %v", root.Get("inside"), root.Get("outside"))
	}
}
