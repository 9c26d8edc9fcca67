//go:build !race

package racetest

// Enabled is false: the race detector is off.
const Enabled = false
