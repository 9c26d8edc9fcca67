//go:build race

package racetest

// Enabled is true: the race detector is on.
const Enabled = true
