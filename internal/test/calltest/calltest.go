package calltest

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Callers returns the frames that lead to the function that calls Callers, innermost
// first. That function and runtime.goexit are not among them.
func Callers() []runtime.Frame {
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

// WantAtMost logs the frames, outermost first, and fails the test if there are more than
// maxFrames, or if their functions are in more than maxFiles files.
func WantAtMost(t *testing.T, frames []runtime.Frame, maxFrames, maxFiles int) {
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
