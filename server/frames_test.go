package server_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/calltest"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// The longest way that a typed call may take from its goroutine to the function, in
// frames and in files that a reader has to open.
const (
	maxFrames = 15
	maxFiles  = 10
)

// TestCallFrames prints the way of a typed call over a pipe, from the goroutine of the
// connection to the function, and bounds it.
func TestCallFrames(t *testing.T) {
	if !transporttests.CarriesModern() {
		return
	}
	var frames []runtime.Frame
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "look"}, func(context.Context, *server.Request, struct{}) (string, error) {
		frames = calltest.Callers()
		return "", nil
	})
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: client.Modern})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	call(t, session, "look", `{}`)
	calltest.WantAtMost(t, frames, maxFrames, maxFiles)
}
