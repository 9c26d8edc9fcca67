//go:build !soak

package streamable_test

// floodFrames is the number of frames of one connection of a flood.
const floodFrames = 1_000
