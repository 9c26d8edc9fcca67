//go:build race

package procgroup

// raceDetectorVariables are passed to a child because it may also have the race detector, as in tests.
var raceDetectorVariables = []string{"GORACE"}
