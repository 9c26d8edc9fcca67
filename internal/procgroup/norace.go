//go:build !race

package procgroup

// raceDetectorVariables is empty: this program has no race detector.
var raceDetectorVariables []string
