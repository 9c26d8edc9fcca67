package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// calls are checks of tools.
var calls = []check{
	{name: "structured content", run: checkStructured},
	{name: "content of every kind", run: checkContent},
	{name: "a tool's failure", run: checkToolFailure},
	{name: "a protocol error", run: checkProtocolError},
	{name: "unknown tool", run: checkUnknownTool},
	{name: "arguments that do not fit", run: checkInvalidArguments},
	{name: "text of every script", run: checkText},
	{name: "an argument in a header", run: checkHeader},
	{name: "an argument in a header, that is not known before", from: modern, run: checkUnknownHeader},
	{name: "a megabyte there and back", run: checkMegabyte},
	{name: "many calls at once", run: checkMany},
	{name: "progress", run: checkProgress},
	{name: "log messages with a minimum level", run: checkLog},
	{name: "log messages only on request", from: modern, run: checkLogUnasked},
	{name: "cancellation", run: checkCancellation},
}

func checkStructured(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	answer, err := s.client.call(ctx, "add", map[string]any{"a": 2, "b": 3})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{`{"sum":5}`}; answer.failed || !cmp.Equal(answer.content, want) {
		t.Errorf("content %q, want %q", answer.content, want)
	}
	if p.server == "dovetail" && p.version < "2025-06-18" { // the first version with structured content
		if answer.structured != "" {
			t.Errorf("structured content %s, want none", answer.structured)
		}
		return
	}
	if want := `{"sum":5}`; answer.structured != want {
		t.Errorf("structured content %s, want %s", answer.structured, want)
	}
}

func checkContent(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	answer, err := s.client.call(ctx, "show", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"look", "image/png 8", "test://text text/plain hello"}
	if diff := cmp.Diff(want, answer.content); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func checkToolFailure(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	answer, err := s.client.call(ctx, "fail", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !answer.failed || !cmp.Equal(answer.content, []string{"no bread today"}) {
		t.Errorf("answer %+v", answer)
	}
}

func checkProtocolError(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	_, err := s.client.call(ctx, "refuse", nil)
	if err == nil || !strings.Contains(err.Error(), "not like this") {
		t.Fatalf("error %v", err)
	}
	want := -32602
	if p.server == "mcp-go" { // its tools cannot set the code
		want = -32603
	}
	if got := s.client.code(err); got != want {
		t.Errorf("code %d, want %d", got, want)
	}
	if got := s.callText(ctx, t, "echo", map[string]any{"text": "alive"}); got != "alive" {
		t.Errorf("then got %q", got)
	}
}

func checkUnknownTool(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	_, err := s.client.call(ctx, "nothing", nil)
	if got := s.client.code(err); got != -32602 {
		t.Errorf("code %d of %v, want -32602", got, err)
	}
}

func checkInvalidArguments(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	answer, err := s.client.call(ctx, "add", map[string]any{"a": "two", "b": 3})
	if err != nil {
		t.Fatal(err)
	}
	if !answer.failed || !strings.Contains(answer.content[0], "/a") {
		t.Errorf("answer %+v", answer)
	}
}

func checkText(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	const text = "naïve 日本語 \U0001F950 <b>&amp;</b> \u2028 \u0000 \r\n \"quoted\" \\ data: x\n\nevent: y"
	if got := s.callText(ctx, t, "echo", map[string]any{"text": text}); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}

// checkHeader: since 2026-07-28 a client that has listed the tools repeats arguments in headers.
// This value must be encoded.
func checkHeader(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	if _, err := s.client.list(ctx, "tools"); err != nil {
		t.Fatal(err)
	}
	const region = "Zürich, 世界"
	if got := s.callText(ctx, t, "route", map[string]any{"region": region}); got != region {
		t.Errorf("got %q, want %q", got, region)
	}
	var want []string
	if p.version >= modern {
		want = []string{"=?base64?WsO8cmljaCwg5LiW55WM?="}
	}
	if diff := cmp.Diff(want, s.regions()); diff != "" {
		t.Errorf("headers, -want +got:\n%s", diff)
	}
}

// checkUnknownHeader: after a refusal, our client lists the tools and repeats the call.
func checkUnknownHeader(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	answer, err := s.client.call(ctx, "route", map[string]any{"region": "eu"})
	if p.client != "dovetail" {
		if got := s.client.code(err); got != -32020 {
			t.Errorf("code %d of %v, want -32020", got, err)
		}
		return
	}
	if err != nil || !cmp.Equal(answer.content, []string{"eu"}) {
		t.Errorf("%+v, %v", answer, err)
	}
	if got := s.regions(); !cmp.Equal(got, []string{"eu"}) {
		t.Errorf("headers %q", got)
	}
}

// regions returns the received values of the header.
func (s *fixture) regions() []string {
	var regions []string
	for len(s.proxy.regions) > 0 {
		regions = append(regions, <-s.proxy.regions)
	}
	return regions
}

func checkMegabyte(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	text := strings.Repeat("dovetail ", 1<<17)
	if got := s.callText(ctx, t, "echo", map[string]any{"text": text}); got != text {
		t.Errorf("got %d bytes, want %d", len(got), len(text))
	}
}

func checkMany(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			want := fmt.Sprintf(`{"sum":%d}`, i+1)
			answer, err := s.client.call(ctx, "add", map[string]any{"a": i, "b": 1})
			if err != nil || len(answer.content) != 1 || answer.content[0] != want {
				t.Errorf("%d + 1: %+v, %v", i, answer, err)
			}
		})
	}
	wg.Wait()
}

func checkProgress(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	if got := s.callText(ctx, t, "climb", nil); got != "up" {
		t.Errorf("got %q", got)
	}
	want := []string{"1/3 step 1", "2/3 step 2", "3/3 step 3"}
	if p.server == "dovetail" && p.version < "2025-03-26" { // the first version with messages
		want = []string{"1/3", "2/3", "3/3"}
	}
	if p.server == "mcp-go" { // its notifications race with the result and may be lost
		isSubset(t, want, s.journal.with("progress"))
		return
	}
	if diff := cmp.Diff(want, s.journal.await(ctx, t, 3, "progress")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// isSubset checks that all lines are expected. Some may be missing.
func isSubset(t *testing.T, want, got []string) {
	t.Helper()
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%q is not in %q", line, want)
		}
	}
}

func checkLog(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, func(s *setup) { s.level = "warning" })
	s.callText(ctx, t, "log", nil)
	want := []string{`warning bakery {"message":"smoke"}`, `error bakery {"message":"fire"}`}
	if p.server == "mcp-go" { // see checkProgress
		isSubset(t, want, s.journal.with("log"))
		return
	}
	if diff := cmp.Diff(want, s.journal.await(ctx, t, 2, "log")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func checkLogUnasked(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	s.callText(ctx, t, "log", nil)
	s.callText(ctx, t, "echo", map[string]any{"text": "a round trip later"})
	if got := s.journal.with("log"); got != nil {
		t.Errorf("got %q", got)
	}
}

func checkCancellation(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	calling, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := s.client.call(calling, "wait", nil)
		ended <- err
	}()
	receive(ctx, t, s.server.events.waiting, "the call to begin")
	cancel()
	if err := receive(ctx, t, ended, "the call to end"); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	if p.client == "mcp-go" && p.version < modern { // it sends no notification, so the tool continues
		s.callText(ctx, t, "echo", map[string]any{"text": "a round trip later"})
		if len(s.server.events.stopped) != 0 {
			t.Error("the tool was stopped")
		}
		return
	}
	if err := receive(ctx, t, s.server.events.stopped, "the tool to end"); !errors.Is(err, context.Canceled) {
		t.Errorf("the tool ended with %v", err)
	}
	if got := s.callText(ctx, t, "echo", map[string]any{"text": "alive"}); got != "alive" {
		t.Errorf("then got %q", got)
	}
}

// receive waits for a value from a channel.
func receive[T any](ctx context.Context, t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
		t.Fatalf("timeout waiting for %s", what)
		panic("unreachable")
	}
}
