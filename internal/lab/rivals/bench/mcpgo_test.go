package main

import (
	"errors"
	"testing"
)

// TestMCPGo does each kind of work over everything that the library has. It may lose
// notifications, but not all of them.
func TestMCPGo(t *testing.T) {
	rehearse(t, mcpGo{}, func(w Work) bool {
		return w.Transport == WebSocket || w.Transport == SSE && w.Era == Modern || w.Transport == Bytes && w.Kind != Call ||
			w.Transport == Pipe && w.Kind == Progress
	}, func(err error) bool {
		lost, ok := errors.AsType[*lossError](err)
		if ok {
			t.Log(lost)
		}
		return err == nil || ok && lost.got > 0
	})
}

// A library's ways that are another peer's are none of its own.
func TestMCPGoHasNoOtherWays(t *testing.T) { refuse(t, mcpGo{}) }
