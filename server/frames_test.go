package server_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/everywhere"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// The longest way that a typed call may take from its goroutine to the function, in
// frames and in files that a reader has to open.
const (
	maxFrames = 17
	maxFiles  = 11
)

// TestCallFrames prints the way of a typed call over a pipe, from the goroutine of the
// connection to the function, and bounds it.
func TestCallFrames(t *testing.T) {
	if !everywhere.CarriesModern() {
		return
	}
	var frames []runtime.Frame
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "look"}, func(context.Context, *server.Request, struct{}) (string, error) {
		frames = callers()
		return "", nil
	})
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: client.Modern})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	call(t, session, "look", `{}`)
	wantFrames(t, frames, maxFrames, maxFiles)
}

// callers are the frames below the function that calls it, without runtime.goexit.
func callers() []runtime.Frame {
	pcs := make([]uintptr, 100)
	pcs = pcs[:runtime.Callers(3, pcs)]
	var found []runtime.Frame
	for frames := runtime.CallersFrames(pcs); ; {
		frame, more := frames.Next()
		if frame.Function != "" && frame.Function != "runtime.goexit" {
			found = append(found, frame)
		}
		if !more {
			return found
		}
	}
}

func wantFrames(t *testing.T, frames []runtime.Frame, maxFrames, maxFiles int) {
	t.Helper()
	var files []string
	for _, frame := range slices.Backward(frames) {
		file := frame.File[strings.LastIndex(frame.File, "/dovetail/")+1:]
		t.Logf("%s (%s:%d)", frame.Function[strings.LastIndex(frame.Function, "/")+1:], file, frame.Line)
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	t.Logf("%d frames in %d files", len(frames), len(files))
	if len(frames) > maxFrames || len(files) > maxFiles {
		t.Errorf("the call passes %d frames in %d files, want at most %d in %d", len(frames), len(files), maxFrames, maxFiles)
	}
}
