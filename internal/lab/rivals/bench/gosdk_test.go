package main

import "testing"

// TestGoSDK does each kind of work over everything that the SDK has.
func TestGoSDK(t *testing.T) {
	rehearse(t, goSDK{}, func(w Work) bool {
		return w.Transport == WebSocket || w.Transport == SSE && w.Era == Modern || w.Transport == Bytes && w.Kind != Call
	}, func(err error) bool { return err == nil })
}

// A library's ways that are another peer's are none of its own.
func TestGoSDKHasNoOtherWays(t *testing.T) { refuse(t, goSDK{}) }
