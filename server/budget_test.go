package server_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// cost is what one run of fn allocates, once it has run often enough for what
// is pooled and kept.
func cost(fn func()) (allocations, bytes float64) {
	const runs = 2000
	for range 200 {
		fn()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		fn()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs, float64(after.TotalAlloc-before.TotalAlloc) / runs
}

type echoOut echoIn

func wantCost(t *testing.T, what string, fn func(), maxAllocations, maxBytes float64) {
	t.Helper()
	if raced {
		t.Skip("the race detector allocates too")
	}
	allocations, bytes := cost(fn)
	t.Logf("%s: %.1f allocations, %.0f bytes", what, allocations, bytes)
	if allocations > maxAllocations || bytes > maxBytes {
		t.Errorf("%s: %.1f allocations and %.0f bytes, want at most %.1f and %.0f", what, allocations, bytes, maxAllocations, maxBytes)
	}
}

// TestCallBudget: a typed tool with 100 bytes of arguments, from the request's
// bytes to the reply's.
func TestCallBudget(t *testing.T) {
	structured := newServer(nil)
	server.AddTool(structured, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in echoIn) (echoOut, error) {
		return echoOut(in), nil
	})
	for result, of := range map[string]struct {
		server         *server.Server
		maxAllocations float64
	}{"text": {newEcho(), 8.5}, "structured": {structured, 9.5}} {
		t.Run(result, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				d := newDispatcher(t, of.server, era, mcp.MethodToolsCall, echoParams)
				wantCost(t, "a call", func() { d.dispatch(t) }, of.maxAllocations, 800)
			})
		})
	}
}

// TestRoundTripBudget: the same, with a client that encodes and decodes.
func TestRoundTripBudget(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session, err := client.Connect(t.Context(), transport.Pipe(newEcho()), &client.Options{Era: era})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		wantCost(t, "a round trip", func() {
			if _, err := session.CallTool(t.Context(), "echo", hundredBytes, nil); err != nil {
				t.Fatal(err)
			}
		}, 27.5, 2400)
	})
}

// TestRegistrationBudget: a typed tool, its two schemas reflected and compiled.
func TestRegistrationBudget(t *testing.T) {
	echo := func(_ context.Context, _ *server.Request, in echoIn) (echoOut, error) { return echoOut(in), nil }
	wantCost(t, "a typed tool", func() {
		if _, err := server.NewTool(server.Tool{Name: "echo"}, echo); err != nil {
			t.Fatal(err)
		}
	}, 200, 21<<10)
}

// TestListBudget: a list is encoded once, however long it is.
func TestListBudget(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		d := newDispatcher(t, newPaged(500, 0), era, mcp.MethodToolsList, "")
		wantCost(t, "a list of 500", func() { d.dispatch(t) }, 8, 1<<10)
	})
}
