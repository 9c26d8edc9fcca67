// Package racetest tells tests whether the race detector is on. It changes times and
// allocations.
package racetest
