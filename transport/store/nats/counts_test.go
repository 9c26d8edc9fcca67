//go:build !soak

package nats_test

// newestKeys is the number of keys of each writer in TestChangeOfNewestRevision.
const newestKeys = 10
