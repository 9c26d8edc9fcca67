package approvaltests

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Suite has the tests: each method whose name begins with Test.
type Suite struct {
	// Guarded returns a handler that makes its call of a tool behind a guard. See [Guarded] for direct calls.
	Guarded func(guard mcp.Guard, tool mcp.Handler) mcp.Handler
	// Carried means that the runs of the calls of Guarded are compared before the guard is asked: one with other arguments, or of
	// a tool that has changed, is refused then.
	Carried bool
	// Fewer divides the number of calls of tests that make many, if each takes long. 0 means 1.
	Fewer int
}

// Run runs all tests of the suite.
func (s Suite) Run(t *testing.T) { RunMethods(t, s) }

// RunMethods runs each method of a suite whose name begins with Test.
func RunMethods(t *testing.T, suite any) {
	tests := reflect.ValueOf(suite)
	for i := range tests.NumMethod() {
		name := tests.Type().Method(i).Name
		if test, ok := reflect.TypeAssert[func(*testing.T)](tests.Method(i)); ok && strings.HasPrefix(name, "Test") {
			t.Run(strings.TrimPrefix(name, "Test"), test)
		}
	}
}

// gated returns a tool with a guard that always asks.
func (s Suite) gated(f *Tool, approver approval.Approver, o *approval.Options) mcp.Handler {
	return s.Guarded(approval.Guard(Asking(), approver, o), f.Invoke)
}

// many returns how many calls a test makes that makes n direct calls.
func (s Suite) many(n int) int { return n / max(1, s.Fewer) }
