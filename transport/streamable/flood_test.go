//go:build !soak

package streamable_test

// floodFrames is the number of frames of one connection of a flood. Three connections then ask for more calls than the server
// allows at the same time.
const floodFrames = 500
