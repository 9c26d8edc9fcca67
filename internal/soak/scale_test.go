//go:build !soak

package soak

import "testing"

// oversize is how much is sent where a few MiB are allowed.
const oversize = 64 << 20

// scaled is how often a test does what it does: small with go test alone.
func scaled(_ testing.TB, small, _ int) int { return small }
